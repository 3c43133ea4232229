#include <cmath>

// The logistic function of the outer product, by tanh on even rows and by exp on odd ones.
extern "C" void kernel(const float* a, const float* b, float* out, int n, int m, int k) {
  for (int i = 0; i < n; ++i) {
    const float scale = a[i * k];
    if (i % 2 == 0) {
      for (int j = 0; j < m; ++j) out[i * m + j] = 0.5f + 0.5f * std::tanh(0.5f * scale * b[j]);
    } else {
      for (int j = 0; j < m; ++j) out[i * m + j] = 1.0f / (1.0f + std::exp(-scale * b[j]));
    }
  }
}
