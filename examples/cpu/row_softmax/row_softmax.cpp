// Softmax over each row of a matrix, the textbook way: maximum, sum, divide.
#include <torch/extension.h>

#include <algorithm>
#include <cmath>

torch::Tensor row_softmax(torch::Tensor x) {
  TORCH_CHECK(x.dim() == 2, "row_softmax: expected a matrix, got ", x.dim(), " dimensions");
  TORCH_CHECK(x.scalar_type() == torch::kFloat32, "row_softmax: expected float32");

  auto input = x.contiguous();
  const int64_t rows = input.size(0);
  const int64_t cols = input.size(1);
  auto output = torch::empty({rows, cols}, input.options());

  const float* in = input.data_ptr<float>();
  float* out = output.data_ptr<float>();

  for (int64_t i = 0; i < rows; i++) {
    // subtract the maximum so that exp cannot overflow
    float row_max = in[i * cols];
    for (int64_t j = 1; j < cols; j++) {
      row_max = std::max(row_max, in[i * cols + j]);
    }

    float sum = 0.0f;
    for (int64_t j = 0; j < cols; j++) {
      sum += std::exp(in[i * cols + j] - row_max);
    }

    for (int64_t j = 0; j < cols; j++) {
      out[i * cols + j] = std::exp(in[i * cols + j] - row_max) / sum;
    }
  }
  return output;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  m.def("row_softmax", &row_softmax, "Softmax over each row");
}
