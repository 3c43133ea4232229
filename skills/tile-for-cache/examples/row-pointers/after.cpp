// out = a b
extern "C" void kernel(const float* a, const float* b, float* out, int n, int m, int k) {
  for (int i_begin = 0; i_begin < n; i_begin += 6) {
    const int i_end = i_begin + 6 < n ? i_begin + 6 : n;
    for (int j_begin = 0; j_begin < m; j_begin += 16) {
      const int j_end = j_begin + 16 < m ? j_begin + 16 : m;
      if (i_end - i_begin == 6 && j_end - j_begin == 16) {
        float sum[6][16];
        #pragma GCC unroll 6
        for (int i = i_begin; i < i_begin + 6; ++i) {
          for (int j = j_begin; j < j_begin + 16; ++j) {
            sum[i - i_begin][j - j_begin] = 0.0f;
          }
        }
        for (int p = 0; p < k; ++p) {
          #pragma GCC unroll 6
          for (int i = i_begin; i < i_begin + 6; ++i) {
            #pragma omp simd
            for (int j = j_begin; j < j_begin + 16; ++j) {
              sum[i - i_begin][j - j_begin] += a[i * k + p] * b[p * m + j];
            }
          }
        }
        #pragma GCC unroll 6
        for (int i = i_begin; i < i_begin + 6; ++i) {
          for (int j = j_begin; j < j_begin + 16; ++j) {
            out[i * m + j] = sum[i - i_begin][j - j_begin];
          }
        }
      } else {
        float sum[6][16];
        for (int i = i_begin; i < i_end; ++i) {
          for (int j = j_begin; j < j_end; ++j) {
            sum[i - i_begin][j - j_begin] = 0.0f;
          }
        }
        for (int p = 0; p < k; ++p) {
          for (int i = i_begin; i < i_end; ++i) {
            #pragma omp simd
            for (int j = j_begin; j < j_end; ++j) {
              sum[i - i_begin][j - j_begin] += a[i * k + p] * b[p * m + j];
            }
          }
        }
        for (int i = i_begin; i < i_end; ++i) {
          for (int j = j_begin; j < j_end; ++j) {
            out[i * m + j] = sum[i - i_begin][j - j_begin];
          }
        }
      }
    }
  }
}
