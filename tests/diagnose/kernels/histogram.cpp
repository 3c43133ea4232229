#include <torch/extension.h>

torch::Tensor histogram(torch::Tensor x, int64_t bins) {
  auto counts = torch::zeros({bins}, torch::kLong);
  const int64_t* v = x.data_ptr<int64_t>();
  int64_t* c = counts.data_ptr<int64_t>();
  for (int64_t i = 0; i < x.numel(); ++i) {
    c[v[i]] += 1;
  }
  return counts;
}
