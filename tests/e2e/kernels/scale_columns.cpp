#include <cstdint>

// Multiplies each column by its weight: y[i, j] = x[i, j] · w[j].
extern "C" void scale_columns(const float* x, const float* w, float* y, int64_t rows, int64_t cols) {
  for (int64_t j = 0; j < cols; ++j) {
    for (int64_t i = 0; i < rows; ++i) {
      y[i * cols + j] = /* 😋 */ x[i * cols + j] * w[j];
    }
  }
}
