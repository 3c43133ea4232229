// Factories and operators: each one call into torch's dispatcher, so that it is torch's own code that runs.
#include <kernel_lsp/ops.h>

#include <algorithm>

namespace kernel_lsp {

// Calls `aten::name` and takes its one result.
template <class... Args>
at::Tensor aten(const char* name, const char* overload, const Args&... args) {
  StableIValue stack[sizeof...(args)] = {Value<std::decay_t<Args>>::give(args)...};
  ok(torch_call_dispatcher(name, overload, stack, kAbi));
  return Value<at::Tensor>::take(stack[0]);
}

// The same with two results.
template <class... Args>
std::tuple<at::Tensor, at::Tensor> aten_two(const char* name, const char* overload, const Args&... args) {
  StableIValue stack[std::max<size_t>(sizeof...(args), 2)] = {Value<std::decay_t<Args>>::give(args)...};
  ok(torch_call_dispatcher(name, overload, stack, kAbi));
  at::Tensor first = Value<at::Tensor>::take(stack[0]);
  return {std::move(first), Value<at::Tensor>::take(stack[1])};
}

// An optional argument that is not given; the type is the schema's.
constexpr std::optional<int64_t> kAbsent;

inline at::Tensor empty_strided(c10::IntArrayRef sizes, const int64_t* strides, const c10::TensorOptions& options) {
  AtenTensorHandle made = nullptr;
  ok(aoti_torch_empty_strided(static_cast<int64_t>(sizes.size()), sizes.data(), strides,
                              static_cast<int32_t>(options.dtype().toScalarType()),
                              static_cast<int32_t>(options.device().type()), options.device().index(), &made));
  return at::Tensor::adopt(made);
}

// `number` as a tensor without dimensions of the type that leaves `x`'s type what torch makes of `x` and a number:
// a number only decides the kind, and a float with whole-number elements gives the default type.
static at::Tensor tensor_of(const c10::Scalar& number, const at::Tensor& x) {
  TORCH_CHECK(!x.is_complex(), "numbers with complex tensors are not supported by the thin layer");
  const auto make = [](auto value, c10::ScalarType type) {
    at::Tensor made = empty_strided({}, nullptr, c10::TensorOptions(type));
    *static_cast<decltype(value)*>(made.data_ptr()) = value;
    return made;
  };
  if (number.isBoolean()) return make(number.toBool(), c10::kBool);
  if (number.isIntegral(false)) return make(number.toLong(), c10::kLong);
  return x.is_floating_point() ? make(number.toDouble(), c10::kDouble) : make(number.toFloat(), c10::kFloat);
}

// Two tensors without dimensions decide the type together, a number and one of them do not: `x` is given a dimension.
template <class F>
at::Tensor with_number(const at::Tensor& x, const c10::Scalar& number, const F& operation) {
  const at::Tensor other = tensor_of(number, x);
  return x.dim() == 0 ? operation(x.reshape({1}), other).reshape({}) : operation(x, other);
}

} // namespace kernel_lsp

namespace at {
inline namespace thin {

Tensor empty(IntArrayRef sizes, const TensorOptions& options) {
  std::vector<int64_t> strides(sizes.size());
  int64_t step = 1;
  for (size_t i = sizes.size(); i-- > 0;) {
    TORCH_CHECK(sizes[i] >= 0, "Trying to create tensor with negative dimension ", sizes[i], ": ", sizes);
    strides[i] = step;
    step *= std::max<int64_t>(sizes[i], 1);
  }
  return kernel_lsp::empty_strided(sizes, strides.data(), options);
}
Tensor empty_strided(IntArrayRef sizes, IntArrayRef strides, const TensorOptions& options) {
  TORCH_CHECK(sizes.size() == strides.size(), "dimensionality of sizes (", sizes.size(),
              ") must match dimensionality of strides (", strides.size(), ")");
  return kernel_lsp::empty_strided(sizes, strides.data(), options);
}
Tensor zeros(IntArrayRef sizes, const TensorOptions& options) { return empty(sizes, options).zero_(); }
Tensor ones(IntArrayRef sizes, const TensorOptions& options) { return empty(sizes, options).fill_(1); }
Tensor full(IntArrayRef sizes, const Scalar& value, const TensorOptions& options) {
  return empty(sizes, options).fill_(value);
}
// torch takes the type from the value where none is given.
Tensor full(IntArrayRef sizes, const Scalar& value) {
  return full(sizes, value, value.isBoolean() ? kBool : value.isFloatingPoint() ? kFloat : kLong);
}
Tensor empty_like(const Tensor& x, const TensorOptions& options) {
  using kernel_lsp::kAbsent;
  const auto type = options.has_dtype() ? std::optional(options.dtype().toScalarType()) : std::nullopt;
  TORCH_CHECK(!options.has_device() || options.device().type() == x.device().type(),
              "empty_like on another device is not supported by the thin layer");
  return kernel_lsp::aten("aten::empty_like", "", x, type, kAbsent, kAbsent, kAbsent, kAbsent);
}
Tensor zeros_like(const Tensor& x, const TensorOptions& o) { return empty_like(x, o).zero_(); }
Tensor ones_like(const Tensor& x, const TensorOptions& o) { return empty_like(x, o).fill_(1); }
Tensor full_like(const Tensor& x, const Scalar& value, const TensorOptions& o) {
  return empty_like(x, o).fill_(value);
}
Tensor from_blob(void* data, IntArrayRef sizes, IntArrayRef strides, const TensorOptions& options) {
  AtenTensorHandle made = nullptr;
  kernel_lsp::ok(aoti_torch_create_tensor_from_blob(
      data, static_cast<int64_t>(sizes.size()), sizes.data(), strides.data(), 0,
      static_cast<int32_t>(options.dtype().toScalarType()), static_cast<int32_t>(options.device().type()),
      options.device().index(), &made));
  return Tensor::adopt(made);
}
Tensor from_blob(void* data, IntArrayRef sizes, const TensorOptions& options) {
  std::vector<int64_t> strides(sizes.size());
  int64_t step = 1;
  for (size_t i = sizes.size(); i-- > 0; step *= std::max<int64_t>(sizes[i], 1)) strides[i] = step;
  return from_blob(data, sizes, strides, options);
}

Tensor Tensor::clone() const { return kernel_lsp::aten("aten::clone", "", *this, kernel_lsp::kAbsent); }
Tensor Tensor::contiguous() const {
  constexpr int64_t contiguous_format = 0;
  return is_contiguous() ? *this : kernel_lsp::aten("aten::contiguous", "", *this, contiguous_format);
}
Tensor Tensor::detach() const { return kernel_lsp::aten("aten::detach", "", *this); }
Tensor Tensor::to(ScalarType type) const {
  if (type == scalar_type()) return *this;
  return kernel_lsp::aten("aten::to", "dtype", *this, type, false, false, kernel_lsp::kAbsent);
}
Tensor Tensor::to(caffe2::TypeMeta type) const { return to(type.toScalarType()); }
Tensor Tensor::cpu() const {
  TORCH_CHECK(is_cpu(), "cpu() of a tensor on another device is not supported by the thin layer");
  return *this;
}
Tensor Tensor::view(IntArrayRef sizes) const { return kernel_lsp::aten("aten::view", "", *this, sizes); }
Tensor Tensor::reshape(IntArrayRef sizes) const { return kernel_lsp::aten("aten::reshape", "", *this, sizes); }
Tensor Tensor::view_as(const Tensor& other) const { return view(other.sizes()); }
Tensor Tensor::reshape_as(const Tensor& other) const { return reshape(other.sizes()); }
Tensor Tensor::expand(IntArrayRef sizes) const {
  return kernel_lsp::aten("aten::expand", "", *this, sizes, false);
}
Tensor Tensor::expand_as(const Tensor& other) const { return expand(other.sizes()); }
Tensor Tensor::permute(IntArrayRef dims) const { return kernel_lsp::aten("aten::permute", "", *this, dims); }
Tensor Tensor::transpose(int64_t a, int64_t b) const {
  return kernel_lsp::aten("aten::transpose", "int", *this, a, b);
}
Tensor Tensor::t() const { return kernel_lsp::aten("aten::t", "", *this); }
Tensor Tensor::squeeze() const { return kernel_lsp::aten("aten::squeeze", "", *this); }
Tensor Tensor::squeeze(int64_t d) const { return kernel_lsp::aten("aten::squeeze", "dim", *this, d); }
Tensor Tensor::unsqueeze(int64_t d) const { return kernel_lsp::aten("aten::unsqueeze", "", *this, d); }
Tensor Tensor::select(int64_t d, int64_t index) const {
  return kernel_lsp::aten("aten::select", "int", *this, d, index);
}
Tensor Tensor::operator[](int64_t index) const { return select(0, index); }
Tensor Tensor::narrow(int64_t d, int64_t start, int64_t length) const {
  return kernel_lsp::aten("aten::narrow", "", *this, d, start, length);
}
Tensor Tensor::slice(int64_t d, std::optional<int64_t> start, std::optional<int64_t> end, int64_t step) const {
  return kernel_lsp::aten("aten::slice", "Tensor", *this, d, start, end, step);
}
Tensor Tensor::flatten(int64_t start, int64_t end) const {
  return kernel_lsp::aten("aten::flatten", "using_ints", *this, start, end);
}
Tensor Tensor::sum() const { return kernel_lsp::aten("aten::sum", "", *this, kernel_lsp::kAbsent); }
Tensor Tensor::sum(IntArrayRef dims, bool keepdim) const {
  return kernel_lsp::aten("aten::sum", "dim_IntList", *this, std::optional(dims.vec()), keepdim, kernel_lsp::kAbsent);
}
Tensor Tensor::mean() const { return kernel_lsp::aten("aten::mean", "", *this, kernel_lsp::kAbsent); }
Tensor Tensor::mean(IntArrayRef dims, bool keepdim) const {
  return kernel_lsp::aten("aten::mean", "dim", *this, std::optional(dims.vec()), keepdim, kernel_lsp::kAbsent);
}
Tensor Tensor::max() const { return kernel_lsp::aten("aten::max", "", *this); }
Tensor Tensor::min() const { return kernel_lsp::aten("aten::min", "", *this); }
Tensor Tensor::amax(IntArrayRef dims, bool keepdim) const {
  return kernel_lsp::aten("aten::amax", "", *this, dims, keepdim);
}
Tensor Tensor::amin(IntArrayRef dims, bool keepdim) const {
  return kernel_lsp::aten("aten::amin", "", *this, dims, keepdim);
}
Tensor Tensor::exp() const { return kernel_lsp::aten("aten::exp", "", *this); }
Tensor Tensor::log() const { return kernel_lsp::aten("aten::log", "", *this); }
Tensor Tensor::sqrt() const { return kernel_lsp::aten("aten::sqrt", "", *this); }
Tensor Tensor::abs() const { return kernel_lsp::aten("aten::abs", "", *this); }
Tensor Tensor::neg() const { return kernel_lsp::aten("aten::neg", "", *this); }
Tensor Tensor::tanh() const { return kernel_lsp::aten("aten::tanh", "", *this); }
Tensor Tensor::sigmoid() const { return kernel_lsp::aten("aten::sigmoid", "", *this); }
Tensor Tensor::relu() const { return kernel_lsp::aten("aten::relu", "", *this); }
Tensor Tensor::matmul(const Tensor& other) const { return kernel_lsp::aten("aten::matmul", "", *this, other); }
Tensor Tensor::mm(const Tensor& other) const { return kernel_lsp::aten("aten::mm", "", *this, other); }
Tensor Tensor::mul(const Tensor& other) const { return kernel_lsp::aten("aten::mul", "Tensor", *this, other); }
Tensor Tensor::div(const Tensor& other) const { return kernel_lsp::aten("aten::div", "Tensor", *this, other); }
// These two have a `Scalar alpha`, which the dispatcher's stable form cannot carry; the C functions have it as a double,
// which torch refuses for whole numbers. Those are summed along a new dimension instead.
static Tensor sum_of_whole(const Tensor& a, const Tensor& b, ScalarType type, bool negated) {
  StableIValue stack[1] = {kernel_lsp::Value<std::vector<Tensor>>::give(std::vector<Tensor>{a.to(type), b.to(type)})};
  kernel_lsp::ok(torch_call_dispatcher("aten::broadcast_tensors", "", stack, kernel_lsp::kAbi));
  std::vector<Tensor> both = kernel_lsp::Value<std::vector<Tensor>>::take(stack[0]);
  if (negated) both[1] = both[1].neg();
  const std::optional<std::vector<int64_t>> first = std::vector<int64_t>{0};
  return kernel_lsp::aten("aten::sum", "dim_IntList", at::stack(both), first, false, std::optional(type));
}
static ScalarType type_of_both(const Tensor& a, const Tensor& b) {
  StableIValue stack[2] = {kernel_lsp::Value<Tensor>::give(a), kernel_lsp::Value<Tensor>::give(b)};
  kernel_lsp::ok(torch_call_dispatcher("aten::result_type", "Tensor", stack, kernel_lsp::kAbi));
  return kernel_lsp::Value<ScalarType>::take(stack[0]);
}
Tensor Tensor::add(const Tensor& other) const {
  const ScalarType type = type_of_both(*this, other);
  if (c10::isIntegralType(type, true)) return sum_of_whole(*this, other, type, false);
  AtenTensorHandle made = nullptr;
  kernel_lsp::ok(aoti_torch_cpu_add_Tensor(handle(), other.handle(), 1.0, &made));
  return adopt(made);
}
Tensor Tensor::sub(const Tensor& other) const {
  TORCH_CHECK(scalar_type() != kBool && other.scalar_type() != kBool,
              "Subtraction, the `-` operator, with a bool tensor is not supported. If you are trying to invert a mask, "
              "use the `~` or `logical_not()` operator instead.");
  const ScalarType type = type_of_both(*this, other);
  if (c10::isIntegralType(type, true)) return sum_of_whole(*this, other, type, true);
  AtenTensorHandle made = nullptr;
  kernel_lsp::ok(aoti_torch_aten_subtract_Tensor(handle(), other.handle(), 1.0, &made));
  return adopt(made);
}
Tensor Tensor::add(const Scalar& other) const {
  return kernel_lsp::with_number(*this, other, [](const Tensor& a, const Tensor& b) { return a.add(b); });
}
Tensor Tensor::sub(const Scalar& other) const {
  return kernel_lsp::with_number(*this, other, [](const Tensor& a, const Tensor& b) { return a.sub(b); });
}
Tensor Tensor::mul(const Scalar& other) const {
  return kernel_lsp::with_number(*this, other, [](const Tensor& a, const Tensor& b) { return a.mul(b); });
}
Tensor Tensor::div(const Scalar& other) const {
  return kernel_lsp::with_number(*this, other, [](const Tensor& a, const Tensor& b) { return a.div(b); });
}
Tensor Tensor::eq(const Tensor& other) const { return kernel_lsp::aten("aten::eq", "Tensor", *this, other); }
Tensor Tensor::eq(const Scalar& other) const {
  return kernel_lsp::with_number(*this, other, [](const Tensor& a, const Tensor& b) { return a.eq(b); });
}
Tensor Tensor::ne(const Tensor& other) const { return kernel_lsp::aten("aten::ne", "Tensor", *this, other); }
Tensor Tensor::ne(const Scalar& other) const {
  return kernel_lsp::with_number(*this, other, [](const Tensor& a, const Tensor& b) { return a.ne(b); });
}
Tensor Tensor::lt(const Tensor& other) const { return kernel_lsp::aten("aten::lt", "Tensor", *this, other); }
Tensor Tensor::lt(const Scalar& other) const {
  return kernel_lsp::with_number(*this, other, [](const Tensor& a, const Tensor& b) { return a.lt(b); });
}
Tensor Tensor::le(const Tensor& other) const { return kernel_lsp::aten("aten::le", "Tensor", *this, other); }
Tensor Tensor::le(const Scalar& other) const {
  return kernel_lsp::with_number(*this, other, [](const Tensor& a, const Tensor& b) { return a.le(b); });
}
Tensor Tensor::gt(const Tensor& other) const { return kernel_lsp::aten("aten::gt", "Tensor", *this, other); }
Tensor Tensor::gt(const Scalar& other) const {
  return kernel_lsp::with_number(*this, other, [](const Tensor& a, const Tensor& b) { return a.gt(b); });
}
Tensor Tensor::ge(const Tensor& other) const { return kernel_lsp::aten("aten::ge", "Tensor", *this, other); }
Tensor Tensor::ge(const Scalar& other) const {
  return kernel_lsp::with_number(*this, other, [](const Tensor& a, const Tensor& b) { return a.ge(b); });
}
Tensor Tensor::softmax(int64_t d) const {
  return kernel_lsp::aten("aten::softmax", "int", *this, d, kernel_lsp::kAbsent);
}
Tensor Tensor::nonzero() const { return kernel_lsp::aten("aten::nonzero", "", *this); }
Tensor Tensor::index_select(int64_t d, const Tensor& index) const {
  return kernel_lsp::aten("aten::index_select", "", *this, d, index);
}
Tensor Tensor::argsort(int64_t d, bool descending) const {
  return kernel_lsp::aten("aten::argsort", "", *this, d, descending);
}
std::tuple<Tensor, Tensor> Tensor::sort(int64_t d, bool descending) const {
  return kernel_lsp::aten_two("aten::sort", "", *this, d, descending);
}
std::tuple<Tensor, Tensor> Tensor::max(int64_t d, bool keepdim) const {
  return kernel_lsp::aten_two("aten::max", "dim", *this, d, keepdim);
}
std::tuple<Tensor, Tensor> Tensor::min(int64_t d, bool keepdim) const {
  return kernel_lsp::aten_two("aten::min", "dim", *this, d, keepdim);
}
Tensor operator+(const Tensor& a, const Scalar& b) { return a.add(b); }
Tensor operator-(const Tensor& a, const Scalar& b) { return a.sub(b); }
Tensor operator*(const Tensor& a, const Scalar& b) { return a.mul(b); }
Tensor operator/(const Tensor& a, const Scalar& b) { return a.div(b); }
Tensor operator==(const Tensor& a, const Tensor& b) { return a.eq(b); }
Tensor operator==(const Tensor& a, const Scalar& b) { return a.eq(b); }
Tensor operator!=(const Tensor& a, const Tensor& b) { return a.ne(b); }
Tensor operator!=(const Tensor& a, const Scalar& b) { return a.ne(b); }
Tensor operator<(const Tensor& a, const Tensor& b) { return a.lt(b); }
Tensor operator<(const Tensor& a, const Scalar& b) { return a.lt(b); }
Tensor operator<=(const Tensor& a, const Tensor& b) { return a.le(b); }
Tensor operator<=(const Tensor& a, const Scalar& b) { return a.le(b); }
Tensor operator>(const Tensor& a, const Tensor& b) { return a.gt(b); }
Tensor operator>(const Tensor& a, const Scalar& b) { return a.gt(b); }
Tensor operator>=(const Tensor& a, const Tensor& b) { return a.ge(b); }
Tensor operator>=(const Tensor& a, const Scalar& b) { return a.ge(b); }
Tensor operator+(const Scalar& a, const Tensor& b) { return b + a; }
Tensor operator*(const Scalar& a, const Tensor& b) { return b * a; }
Tensor softmax(const Tensor& x, int64_t d) { return x.softmax(d); }
Tensor nonzero(const Tensor& x) { return x.nonzero(); }
Tensor index_select(const Tensor& x, int64_t d, const Tensor& index) { return x.index_select(d, index); }
Tensor operator+(const Tensor& a, const Tensor& b) { return a.add(b); }
Tensor operator-(const Tensor& a, const Tensor& b) { return a.sub(b); }
Tensor operator*(const Tensor& a, const Tensor& b) { return a.mul(b); }
Tensor operator/(const Tensor& a, const Tensor& b) { return a.div(b); }
Tensor operator-(const Tensor& a) { return a.neg(); }

Tensor matmul(const Tensor& a, const Tensor& b) { return a.matmul(b); }
Tensor mm(const Tensor& a, const Tensor& b) { return a.mm(b); }
Tensor add(const Tensor& a, const Tensor& b) { return a.add(b); }
Tensor sub(const Tensor& a, const Tensor& b) { return a.sub(b); }
Tensor mul(const Tensor& a, const Tensor& b) { return a.mul(b); }
Tensor div(const Tensor& a, const Tensor& b) { return a.div(b); }
Tensor sum(const Tensor& x) { return x.sum(); }
Tensor mean(const Tensor& x) { return x.mean(); }
Tensor exp(const Tensor& x) { return x.exp(); }
Tensor log(const Tensor& x) { return x.log(); }
Tensor sqrt(const Tensor& x) { return x.sqrt(); }
Tensor abs(const Tensor& x) { return x.abs(); }
Tensor tanh(const Tensor& x) { return x.tanh(); }
Tensor sigmoid(const Tensor& x) { return x.sigmoid(); }
Tensor relu(const Tensor& x) { return x.relu(); }
Tensor cat(TensorList tensors, int64_t d) { return kernel_lsp::aten("aten::cat", "", tensors, d); }
Tensor stack(TensorList tensors, int64_t d) { return kernel_lsp::aten("aten::stack", "", tensors, d); }

} // namespace thin
} // namespace at
