#include <torch/extension.h>

torch::Tensor row_sum(torch::Tensor x) {
  auto out = torch::zeros({x.size(0)}, x.options());
  AT_DISPATCH_FLOATING_TYPES(x.scalar_type(), "row_sum", ([&] {
    const scalar_t* in = x.data_ptr<scalar_t>();
    scalar_t* to = out.data_ptr<scalar_t>();
    const int64_t cols = x.size(1);
    at::parallel_for(0, x.size(0), 64, [&](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; ++r) {
        scalar_t total = 0;
        for (int64_t c = 0; c < cols; ++c) {
          total += in[r * cols + c];
        }
        to[r] = total;
      }
    });
  }));
  return out;
}
