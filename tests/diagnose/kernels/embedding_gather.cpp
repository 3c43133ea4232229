#include <torch/extension.h>

torch::Tensor embedding(torch::Tensor table, torch::Tensor index) {
  const int64_t width = table.size(1), n = index.size(0);
  auto out = torch::empty({n, width}, table.options());
  const float* t = table.data_ptr<float>();
  const int64_t* ids = index.data_ptr<int64_t>();
  float* o = out.data_ptr<float>();
  at::parallel_for(0, n, 16, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const float* row = t + ids[i] * width;
      for (int64_t j = 0; j < width; ++j) o[i * width + j] = row[j];
    }
  });
  return out;
}
