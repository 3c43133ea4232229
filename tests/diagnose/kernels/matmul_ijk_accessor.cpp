#include <torch/extension.h>

torch::Tensor matmul(torch::Tensor a, torch::Tensor b) {
  TORCH_CHECK(a.size(1) == b.size(0), "inner sizes differ");
  auto c = torch::zeros({a.size(0), b.size(1)}, a.options());
  auto A = a.accessor<float, 2>();
  auto B = b.accessor<float, 2>();
  auto C = c.accessor<float, 2>();
  for (int64_t i = 0; i < A.size(0); ++i) {
    for (int64_t j = 0; j < B.size(1); ++j) {
      for (int64_t k = 0; k < A.size(1); ++k) {
        C[i][j] += A[i][k] * B[k][j];
      }
    }
  }
  return c;
}
