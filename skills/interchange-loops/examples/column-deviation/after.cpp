#include <cmath>
#include <cstdint>

// Standard deviation of each of b's columns, in every row of out.
extern "C" void kernel(const float* a, const float* b, float* out, int n, int m, int k) {
  (void)a;
  const int64_t rows = k;
  for (int64_t j_begin = 0; j_begin < m; j_begin += 256) {
    const int64_t j_end = j_begin + 256 < m ? j_begin + 256 : m;
    float mean[256];
    float squares[256];
    float deviation[256];
    for (int64_t j = j_begin; j < j_end; ++j) {
      mean[j - j_begin] = 0.0f;
      squares[j - j_begin] = 0.0f;
    }
    for (int64_t r = 0; r < rows; ++r) {
      #pragma omp simd
      for (int64_t j = j_begin; j < j_end; ++j) {
        mean[j - j_begin] += b[r * m + j];
      }
    }
    for (int64_t j = j_begin; j < j_end; ++j) {
      mean[j - j_begin] /= rows;
    }
    // second pass: less cancellation
    for (int64_t r = 0; r < rows; ++r) {
      #pragma omp simd
      for (int64_t j = j_begin; j < j_end; ++j) {
        const float d = b[r * m + j] - mean[j - j_begin];
        squares[j - j_begin] += d * d;
      }
    }
    for (int64_t j = j_begin; j < j_end; ++j) {
      deviation[j - j_begin] = std::sqrt(squares[j - j_begin] / rows);
    }
    for (int i = 0; i < n; ++i) {
      #pragma omp simd
      for (int64_t j = j_begin; j < j_end; ++j) {
        out[i * m + j] = deviation[j - j_begin];
      }
    }
  }
}
