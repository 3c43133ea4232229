// Euclidean distance between every row of a and every row of b.
#include <torch/extension.h>

#include <cmath>

torch::Tensor pairwise_distance(torch::Tensor a, torch::Tensor b) {
  TORCH_CHECK(a.dim() == 2 && b.dim() == 2, "pairwise_distance: expected two matrices");
  TORCH_CHECK(a.size(1) == b.size(1), "pairwise_distance: points of different dimension");
  a = a.contiguous();
  b = b.contiguous();

  const int64_t m = a.size(0);
  const int64_t n = b.size(0);
  const int64_t dim = a.size(1);
  auto result = torch::zeros({m, n}, a.options());

  const float* pa = a.data_ptr<float>();
  const float* pb = b.data_ptr<float>();
  float* out = result.data_ptr<float>();

  for (int64_t i = 0; i < m; i++) {
    for (int64_t j = 0; j < n; j++) {
      for (int64_t k = 0; k < dim; k++) {
        const float d = pa[i * dim + k] - pb[j * dim + k];
        out[i * n + j] += d * d;
      }
      out[i * n + j] = std::sqrt(out[i * n + j]);
    }
  }
  return result;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  m.def("pairwise_distance", &pairwise_distance, "Euclidean distances, (m, d) x (n, d) -> (m, n)");
}
