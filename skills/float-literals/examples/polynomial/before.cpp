#include <cmath>

// 0.5 x (1 + x^2 / 3), x the product of first elements, plus its exponential.
extern "C" void kernel(const float* a, const float* b, float* out, int n, int m, int k) {
  for (int i = 0; i < n; i++) {
    for (int j = 0; j < m; j++) {
      const float x = a[i * k] * b[j];
      out[i * m + j] = 0.5 * x * (1.0 + 0.333333333 * x * x) + exp(-x * x);
    }
  }
}
