// Every function here gives the same result over the thin layer and over torch's own headers; see test_thin.py.
#include <ATen/Parallel.h>
#include <torch/extension.h>

#include <tuple>
#include <vector>

namespace {

template <typename T>
struct Box {
  T low, high;
  T width() const { return high - low; }
};

template <typename scalar_t>
void scale_rows(const scalar_t* in, scalar_t* out, int64_t rows, int64_t cols, double factor) {
  at::parallel_for(0, rows, 4, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i)
      for (int64_t j = 0; j < cols; ++j) out[i * cols + j] = in[i * cols + j] * static_cast<scalar_t>(factor);
  });
}

}  // namespace

#define CHECK_CONTIGUOUS(x) TORCH_CHECK(x.is_contiguous(), #x " must be contiguous")
#define CHECK_INPUT(x) TORCH_CHECK(x.device().is_cpu(), #x " must be on the CPU"); CHECK_CONTIGUOUS(x)

torch::Tensor scale(torch::Tensor x, double factor) {
  CHECK_INPUT(x);
  auto out = torch::empty(x.sizes(), x.options());
  AT_DISPATCH_FLOATING_TYPES(x.scalar_type(), "scale", [&] {
    scale_rows<scalar_t>(x.data_ptr<scalar_t>(), out.data_ptr<scalar_t>(), x.size(0), x.size(-1), factor);
  });
  return out;
}

at::Tensor half_too(const at::Tensor& x) {
  auto y = at::zeros_like(x);
  AT_DISPATCH_FLOATING_TYPES_AND2(at::ScalarType::Half, at::ScalarType::BFloat16, x.scalar_type(), "half_too", [&] {
    auto in = x.contiguous();
    const scalar_t* p = in.const_data_ptr<scalar_t>();
    scalar_t* q = y.mutable_data_ptr<scalar_t>();
    for (const auto i : c10::irange(x.numel())) q[i] = p[i] + scalar_t(1);
  });
  return y;
}

torch::Tensor integers(torch::Tensor x) {
  auto counts = torch::zeros({x.size(0)}, torch::dtype(torch::kInt64).device(x.device()));
  auto out = counts.accessor<int64_t, 1>();
  AT_DISPATCH_INTEGRAL_TYPES(x.scalar_type(), "integers", [&]() {
    auto in = x.accessor<scalar_t, 2>();
    for (int i = 0; i < in.size(0); ++i)
      for (int j = 0; j < in.size(1); ++j)
        if (in[i][j] > 2) out[i] += 1;
  });
  return counts;
}

torch::Tensor all_types(torch::Tensor x) {
  auto y = x.clone();
  AT_DISPATCH_ALL_TYPES_AND(at::kBool, x.scalar_type(), "all_types", [&] {
    Box<double> box{0, 0};
    scalar_t* p = y.data_ptr<scalar_t>();
    for (int64_t i = 0; i < y.numel(); ++i) box.high += static_cast<double>(p[i]);
    p[0] = static_cast<scalar_t>(box.width());
  });
  return y;
}

void in_place(torch::Tensor& x, const torch::Tensor& y, float alpha) {
  float* p = x.data_ptr<float>();
  const float* q = y.data_ptr<float>();
  for (int64_t i = 0; i < x.numel(); ++i) p[i] += alpha * q[i];
}

int out_argument(torch::Tensor x, torch::Tensor out) {
  TORCH_CHECK(x.sizes() == out.sizes(), "sizes differ: ", x.sizes(), " and ", out.sizes());
  out.copy_(x);
  out.select(0, 0).fill_(7);
  return static_cast<int>(out.ndimension());
}

std::vector<torch::Tensor> views(torch::Tensor x) {
  return {x.view({-1}),        x.reshape({x.size(1), x.size(0)}), x.transpose(0, 1), x.t(),
          x.unsqueeze(0),      x.unsqueeze(0).squeeze(0),         x.select(0, 1),    x.narrow(1, 1, 2),
          x.permute({1, 0}),   x.flatten(),                       x[1],              x.slice(1, 0, 2),
          x.t().contiguous(),  x.to(torch::kFloat64),             x.expand({x.size(0), x.size(1)}),
          x.unsqueeze(0).squeeze()};
}

std::tuple<torch::Tensor, torch::Tensor, int64_t, double, bool> several(torch::Tensor x) {
  return std::make_tuple(x.sum(), x.mean(), x.numel(), x.max().item<double>(), x.is_floating_point());
}

std::vector<at::Tensor> arithmetic(torch::Tensor a, torch::Tensor b) {
  return {a + b,     a - b,      a * b,     a / b,         -a,          torch::matmul(a, b.t()), a.mm(b.t()),
          a.exp(),   a.sqrt(),   a.abs(),   torch::tanh(a), a.sigmoid(), torch::relu(a),         a.sum({1}),
          a.mean({0}, true), a.amax({1}), a.min(), torch::cat({a, b}, 1), torch::stack({a, b}), torch::log(b.abs())};
}

// As in the detection kernels that everybody copies.
at::Tensor suppress(const at::Tensor& boxes, const at::Tensor& scores, const float threshold) {
  if (boxes.numel() == 0) return at::empty({0}, boxes.options().dtype(at::kLong).device(at::kCPU));
  auto x1_t = boxes.select(1, 0).contiguous();
  auto y1_t = boxes.select(1, 1).contiguous();
  auto x2_t = boxes.select(1, 2).contiguous();
  auto y2_t = boxes.select(1, 3).contiguous();
  at::Tensor areas_t = (x2_t - x1_t + 1) * (y2_t - y1_t + 1);
  auto order_t = std::get<1>(scores.sort(0, /* descending=*/true));
  auto ndets = boxes.size(0);
  at::Tensor suppressed_t = at::zeros({ndets}, boxes.options().dtype(at::kByte).device(at::kCPU));
  auto suppressed = suppressed_t.data_ptr<uint8_t>();
  auto order = order_t.data_ptr<int64_t>();
  auto x1 = x1_t.data_ptr<float>(), y1 = y1_t.data_ptr<float>(), x2 = x2_t.data_ptr<float>(), y2 = y2_t.data_ptr<float>();
  auto areas = areas_t.data_ptr<float>();
  for (int64_t _i = 0; _i < ndets; _i++) {
    auto i = order[_i];
    if (suppressed[i] == 1) continue;
    for (int64_t _j = _i + 1; _j < ndets; _j++) {
      auto j = order[_j];
      if (suppressed[j] == 1) continue;
      auto w = std::max(0.f, std::min(x2[i], x2[j]) - std::max(x1[i], x1[j]) + 1);
      auto h = std::max(0.f, std::min(y2[i], y2[j]) - std::max(y1[i], y1[j]) + 1);
      if (w * h / (areas[i] + areas[j] - w * h) >= threshold) suppressed[j] = 1;
    }
  }
  return at::nonzero(suppressed_t == 0).squeeze(1);
}

std::vector<torch::Tensor> with_numbers(torch::Tensor x) {
  auto largest = x.max(1);
  return {x + 1,   x - 2,     x * 3,    x / 4,          x + 1.5,  x * 0.5f,       2 * x,    1 + x,
          x == 0,  x != 1,    x < 0.5,  x >= 2,         x > x,    x <= x,         x + true, x.sum() * 2.5,
          x.sum() / 3, x.argsort(1, true), std::get<0>(largest), std::get<1>(largest), x.index_select(0, at::nonzero(x.select(1, 0) > -9).squeeze(1))};
}

std::vector<torch::Tensor> factories(torch::Tensor x, int64_t n) {
  torch::NoGradGuard no_grad;
  auto options = torch::TensorOptions().dtype(torch::kFloat32).device(torch::kCPU).requires_grad(false);
  return {torch::zeros({n, 2}, options),
          torch::ones({n}, torch::kDouble),
          torch::full({2, n}, 1.5, x.options()),
          torch::full_like(x, 3),
          torch::ones_like(x, torch::kInt32),
          torch::zeros(x.sizes(), x.dtype()),
          torch::empty({0}, x.options()),
          torch::full({2}, 3),
          torch::zeros({2}, x.options().dtype(at::kBool))};
}

torch::Tensor optional_bias(torch::Tensor x, c10::optional<torch::Tensor> bias, std::optional<int64_t> times) {
  auto y = x.clone();
  if (bias.has_value() && bias->defined()) y = y + *bias;
  for (int64_t i = 1; i < times.value_or(1); ++i) y = y + x;
  return y;
}

torch::Tensor gather(std::vector<torch::Tensor> parts, std::vector<int64_t> order, std::string mode, bool twice) {
  auto y = torch::zeros_like(parts[0]);
  for (int64_t i : order) y = mode == "sum" ? y + parts[i] : y - parts[i];
  return twice ? y + y : y;
}

double reduce(torch::Tensor x) {
  const double* p = x.data_ptr<double>();
  return at::parallel_reduce(
      0, x.numel(), 16, 0.0,
      [&](int64_t begin, int64_t end, double sum) {
        for (int64_t i = begin; i < end; ++i) sum += p[i];
        return sum;
      },
      [](double a, double b) { return a + b; });
}

std::string describe(torch::Tensor x) {
  return c10::str(x.sizes(), x.strides(), x.dtype(), x.scalar_type(), x.device(), x.element_size(), x.nbytes(),
                  x.is_contiguous(), x.storage_offset(), x.dim(), x.size(0), x.stride(-1), x.dtype() == torch::kFloat32);
}

void fails(torch::Tensor x, int64_t how) {
  if (how == 0) TORCH_CHECK(false, "no ", x.dim(), " dims");
  if (how == 1) x.data_ptr<int>();
  if (how == 2) x.size(9);
  if (how == 3) throw std::invalid_argument("not this");
  if (how == 4) TORCH_CHECK_EQ(x.dim(), 9);
  if (how == 5) x.accessor<float, 5>();
  if (how == 6) at::parallel_for(0, 100, 1, [](int64_t, int64_t) { throw std::runtime_error("from a thread"); });
  if (how == 7) AT_ERROR("gone");
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  m.doc() = "everything";
  m.def("scale", &scale, "scaled", py::arg("x"), py::arg("factor") = 2.0);
  m.def("half_too", &half_too);
  m.def("integers", integers, "counts");
  m.def("all_types", &all_types);
  m.def("in_place", &in_place, py::arg("x"), py::arg("y"), py::arg("alpha") = 0.5f);
  m.def("out_argument", &out_argument);
  m.def("views", &views);
  m.def("several", &several);
  m.def("arithmetic", &arithmetic);
  m.def("factories", &factories, py::call_guard<py::gil_scoped_release>());
  m.def("optional_bias", &optional_bias, py::arg("x"), py::arg("bias") = py::none(), py::arg("times") = py::none());
  m.def("gather", &gather);
  m.def("reduce", &reduce);
  m.def("describe", &describe);
  m.def("fails", &fails);
  m.def("suppress", &suppress);
  m.def("with_numbers", &with_numbers);
  m.def("lambda", [](torch::Tensor x, int n) { return x.sum() + torch::full({}, n, x.options()); });
}
