// GELU with the tanh approximation.
#include <torch/extension.h>

#include <cmath>

torch::Tensor gelu(torch::Tensor x) {
  auto input = x.contiguous();
  auto output = torch::empty_like(input);

  const float* in = input.data_ptr<float>();
  float* out = output.data_ptr<float>();
  const int64_t n = input.numel();

  for (int64_t i = 0; i < n; i++) {
    const float v = in[i];
    // 0.79788... = sqrt(2 / pi)
    out[i] = 0.5 * v * (1.0 + tanh(0.7978845608028654 * (v + 0.044715 * v * v * v)));
  }
  return output;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  m.def("gelu", &gelu, "GELU, tanh approximation");
}
