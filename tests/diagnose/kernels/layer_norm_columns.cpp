#include <torch/extension.h>
#include <cmath>

// Per-row statistics, but the row loop is inside: every access jumps by a row.
torch::Tensor layer_norm(torch::Tensor x, double eps) {
  const int64_t rows = x.size(0), cols = x.size(1);
  auto y = torch::empty_like(x);
  auto mean = torch::zeros({rows}, x.options());
  const float* in = x.data_ptr<float>();
  float* m = mean.data_ptr<float>();
  float* out = y.data_ptr<float>();
  for (int64_t j = 0; j < cols; ++j) {
    for (int64_t i = 0; i < rows; ++i) {
      m[i] += in[i * cols + j] / cols;
    }
  }
  for (int64_t j = 0; j < cols; ++j) {
    for (int64_t i = 0; i < rows; ++i) {
      out[i * cols + j] = in[i * cols + j] - m[i];
    }
  }
  return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("layer_norm", &layer_norm); }
