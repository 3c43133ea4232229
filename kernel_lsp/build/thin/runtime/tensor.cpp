// What a tensor does beyond reading its sizes: apart from the user's file so that it is compiled once.
#include <kernel_lsp/tensor.h>

namespace c10 {
inline namespace thin {

const char* Error::what() const noexcept { return message_.c_str(); }

} // namespace thin
} // namespace c10

namespace kernel_lsp {

void fail(std::string message) { throw c10::Error(std::move(message)); }

void fail_call() {
  const char* what = torch_exception_get_what_without_backtrace ? torch_exception_get_what_without_backtrace() : nullptr;
  fail(what && *what ? what : "a torch operation failed; torch printed the reason to stderr");
}

void fail_narrow(int64_t number) { fail(c10::str("the number ", number, " does not fit the kernel's parameter")); }

std::string Value<std::string>::take(StableIValue v) {
  const auto handle = reinterpret_cast<StringHandle>(v);
  size_t length = 0;
  const char* data = nullptr;
  ok(torch_string_length(handle, &length));
  ok(torch_string_c_str(handle, &data));
  std::string text(data, length);
  torch_delete_string(handle);
  return text;
}

StableIValue Value<std::string>::give(const std::string& text) {
  StringHandle handle = nullptr;
  ok(torch_new_string_handle(text.data(), text.size(), &handle));
  return reinterpret_cast<StableIValue>(handle);
}

} // namespace kernel_lsp

namespace at {
inline namespace thin {

TensorBody::TensorBody(AtenTensorHandle owned) : handle(owned) {
  int64_t *found_sizes = nullptr, *found_strides = nullptr;
  int32_t found_type = 0, found_device = 0, found_index = -1;
  kernel_lsp::ok(aoti_torch_get_dim(handle, &dim));
  kernel_lsp::ok(aoti_torch_get_numel(handle, &numel));
  kernel_lsp::ok(aoti_torch_get_sizes(handle, &found_sizes));
  kernel_lsp::ok(aoti_torch_get_strides(handle, &found_strides));
  kernel_lsp::ok(aoti_torch_get_dtype(handle, &found_type));
  kernel_lsp::ok(aoti_torch_get_device_type(handle, &found_device));
  kernel_lsp::ok(aoti_torch_get_device_index(handle, &found_index));
  sizes = found_sizes;
  strides = found_strides;
  type = static_cast<ScalarType>(found_type);
  device_type = static_cast<DeviceType>(found_device);
  device_index = static_cast<int8_t>(found_index);
}

TensorBody::~TensorBody() { aoti_torch_delete_tensor_object(handle); }

Tensor Tensor::adopt(AtenTensorHandle owned) {
  bool is_defined = false;
  kernel_lsp::ok(aoti_torch_is_defined(owned, &is_defined));
  Tensor tensor;
  if (is_defined) {
    tensor.body_ = new TensorBody(owned);
  } else {
    aoti_torch_delete_tensor_object(owned);
  }
  return tensor;
}

AtenTensorHandle Tensor::share() const {
  AtenTensorHandle copy = nullptr;
  kernel_lsp::ok(body_ ? aoti_torch_new_tensor_handle(body_->handle, &copy)
                       : aoti_torch_new_uninitialized_tensor(&copy));
  return copy;
}

void Tensor::release() noexcept { delete body_; }

void* Tensor::fetch_data() const {
  kernel_lsp::ok(aoti_torch_get_data_ptr(body().handle, &body().data));
  return body().data;
}

bool Tensor::is_contiguous() const {
  bool answer = false;
  kernel_lsp::ok(aoti_torch_is_contiguous(handle(), &answer));
  return answer;
}

int64_t Tensor::storage_offset() const {
  int64_t offset = 0;
  kernel_lsp::ok(aoti_torch_get_storage_offset(handle(), &offset));
  return offset;
}

Scalar Tensor::item() const {
  TORCH_CHECK(numel() == 1, "a Tensor with ", numel(), " elements cannot be converted to Scalar");
  TORCH_CHECK(is_cpu(), "the thin layer reads elements of CPU tensors only");
  const void* p = data_ptr();
  switch (scalar_type()) {
    case kByte: return *static_cast<const uint8_t*>(p);
    case kChar: return *static_cast<const int8_t*>(p);
    case kShort: return *static_cast<const int16_t*>(p);
    case kInt: return *static_cast<const int32_t*>(p);
    case kLong: return *static_cast<const int64_t*>(p);
    case kBool: return *static_cast<const bool*>(p);
    case kHalf: return *static_cast<const Half*>(p);
    case kBFloat16: return *static_cast<const BFloat16*>(p);
    case kFloat: return *static_cast<const float*>(p);
    case kDouble: return *static_cast<const double*>(p);
    default: kernel_lsp::fail(c10::str("item() of ", toString(scalar_type()), " is not supported by the thin layer"));
  }
}

Tensor& Tensor::zero_() const {
  kernel_lsp::ok(aoti_torch_zero_(handle()));
  return const_cast<Tensor&>(*this);
}

Tensor& Tensor::fill_(const Scalar& value) const {
  TORCH_CHECK(value.isFloatingPoint() || static_cast<int64_t>(value.toDouble()) == value.toLong(),
              "fill_ with an integer that no double holds is not supported by the thin layer");
  kernel_lsp::ok(aoti_torch_aten_fill__Scalar(handle(), value.toDouble()));
  return const_cast<Tensor&>(*this);
}

Tensor& Tensor::copy_(const Tensor& source, bool non_blocking) const {
  kernel_lsp::ok(aoti_torch_copy_(handle(), source.handle(), non_blocking));
  return const_cast<Tensor&>(*this);
}

void Tensor::undefined() { kernel_lsp::fail("an undefined tensor has no data, sizes or type"); }

void Tensor::out_of_range(int64_t d, int64_t n) {
  if (n == 0) kernel_lsp::fail(c10::str("Dimension specified as ", d, " but tensor has no dimensions"));
  kernel_lsp::fail(
      c10::str("Dimension out of range (expected to be in range of [", -n, ", ", n - 1, "], but got ", d, ")"));
}

void Tensor::wrong_type(ScalarType wanted) const {
  kernel_lsp::fail(c10::str("expected scalar type ", toString(wanted), " but found ", toString(scalar_type())));
}

} // namespace thin
} // namespace at
