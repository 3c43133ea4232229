#include <cmath>
#include <cstdint>

static inline float distance(const float* a, const float* b, int64_t d) {
  float sum = 0.0f;
  for (int64_t k = 0; k < d; ++k) {
    const float diff = a[k] - b[k];
    sum += diff * diff;
  }
  return std::sqrt(sum);
}

extern "C" void pairwise(const float* x, float* out, int64_t n, int64_t d) {
  for (int64_t i = 0; i < n; ++i)
    for (int64_t j = 0; j < n; ++j)
      out[i * n + j] = distance(x + i * d, x + j * d, d);
}
