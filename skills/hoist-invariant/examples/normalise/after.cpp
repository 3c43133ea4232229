#include <cmath>

// b's rows over their length, each times a's first element of the row.
extern "C" void kernel(const float* a, const float* b, float* out, int n, int m, int k) {
  for (int i = 0; i < n; ++i) {
    float squares = 1e-6f;
    for (int j = 0; j < m; ++j) squares += b[j] * b[j];
    const float length = std::sqrt(squares);
    const float inverse_length = 1.0f / length;
    const auto exp_value = std::exp(-squares);
    for (int j = 0; j < m; ++j) {
      out[i * m + j] = a[i * k] * b[j] * inverse_length + exp_value;
    }
  }
}
