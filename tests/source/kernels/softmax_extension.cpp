// Row softmax as extensions have it: checks, a dispatch macro, parallel_for, a backward pass beside the forward one.
#include <torch/extension.h>
#include <ATen/Parallel.h>
#include <cmath>
#include <limits>

#define CHECK_CPU(x) TORCH_CHECK(x.device().is_cpu(), #x " must be on the CPU")
#define CHECK_CONTIGUOUS(x) TORCH_CHECK(x.is_contiguous(), #x " must be contiguous")
#define CHECK_INPUT(x) CHECK_CPU(x); CHECK_CONTIGUOUS(x)

namespace {

template <typename scalar_t>
inline scalar_t row_max(const scalar_t* __restrict__ row, int64_t n) {
  scalar_t best = -std::numeric_limits<scalar_t>::infinity();
  for (int64_t j = 0; j < n; ++j) {
    if (row[j] > best) best = row[j];
  }
  return best;
}

template <typename scalar_t>
void softmax_rows(const scalar_t* __restrict__ input, scalar_t* __restrict__ output, int64_t rows, int64_t cols) {
  at::parallel_for(0, rows, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const scalar_t* in = input + i * cols;
      scalar_t* out = output + i * cols;
      const scalar_t top = row_max(in, cols);
      scalar_t sum = 0;
      for (int64_t j = 0; j < cols; ++j) {
        out[j] = std::exp(in[j] - top);
        sum += out[j];
      }
      for (int64_t j = 0; j < cols; ++j) out[j] /= sum;
    }
  });
}

}  // namespace

torch::Tensor softmax_forward(const torch::Tensor& input) {
  CHECK_INPUT(input);
  auto output = torch::empty_like(input);
  AT_DISPATCH_FLOATING_TYPES(input.scalar_type(), "softmax_forward", ([&] {
    softmax_rows<scalar_t>(
        input.data_ptr<scalar_t>(), output.data_ptr<scalar_t>(), input.size(0), input.size(1));
  }));
  return output;
}

torch::Tensor softmax_backward(const torch::Tensor& grad, const torch::Tensor& output) {
  CHECK_INPUT(grad);
  CHECK_INPUT(output);
  auto result = torch::empty_like(grad);
  const auto rows = grad.size(0), cols = grad.size(1);
  AT_DISPATCH_FLOATING_TYPES(grad.scalar_type(), "softmax_backward", [&] {
    auto g = grad.accessor<scalar_t, 2>();
    auto o = output.accessor<scalar_t, 2>();
    auto r = result.accessor<scalar_t, 2>();
    for (const auto i : c10::irange(rows)) {
      scalar_t dot = 0;
      for (const auto j : c10::irange(cols)) dot += g[i][j] * o[i][j];
      for (const auto j : c10::irange(cols)) r[i][j] = o[i][j] * (g[i][j] - dot);
    }
  });
  return result;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  m.doc() = "softmax";
  m.def("forward", &softmax_forward, "softmax forward (CPU)", py::arg("input"));
  m.def("backward", &softmax_backward, "softmax backward (CPU)");
}
