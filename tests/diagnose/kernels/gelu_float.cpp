#include <torch/extension.h>
#include <cmath>

void gelu_forward(const torch::Tensor& x, torch::Tensor& out) {
  const float* in = x.data_ptr<float>();
  float* y = out.data_ptr<float>();
  const int64_t n = x.numel();
#pragma omp parallel for
  for (int64_t i = 0; i < n; ++i) {
    const float v = in[i];
    y[i] = 0.5f * v * (1.0f + std::erf(v * 0.70710678118f));
  }
}
