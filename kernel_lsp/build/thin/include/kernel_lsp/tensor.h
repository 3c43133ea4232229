// at::Tensor over a handle of torch's stable ABI.
#pragma once

#include <kernel_lsp/types.h>
#include <kernel_lsp/value.h>

#include <atomic>
#include <utility>

namespace at {
inline namespace thin {

class Tensor;
using TensorList = c10::ArrayRef<Tensor>;

template <class T, size_t N>
class TensorAccessor {
 public:
  TensorAccessor(T* data, const int64_t* sizes, const int64_t* strides)
      : data_(data), sizes_(sizes), strides_(strides) {}
  IntArrayRef sizes() const { return IntArrayRef(sizes_, N); }
  IntArrayRef strides() const { return IntArrayRef(strides_, N); }
  int64_t size(int64_t i) const { return sizes_[i]; }
  int64_t stride(int64_t i) const { return strides_[i]; }
  T* data() { return data_; }
  const T* data() const { return data_; }
  decltype(auto) operator[](int64_t i) {
    if constexpr (N == 1) {
      return (data_[strides_[0] * i]);
    } else {
      return TensorAccessor<T, N - 1>(data_ + strides_[0] * i, sizes_ + 1, strides_ + 1);
    }
  }
  decltype(auto) operator[](int64_t i) const {
    if constexpr (N == 1) {
      return static_cast<const T&>(data_[strides_[0] * i]);
    } else {
      return static_cast<const TensorAccessor<T, N - 1>>(
          TensorAccessor<T, N - 1>(data_ + strides_[0] * i, sizes_ + 1, strides_ + 1));
    }
  }

 private:
  T* data_;
  const int64_t* sizes_;
  const int64_t* strides_;
};

// Sizes and strides are read once and kept: they never change under a kernel, and reading them through the ABI on
// every call of `size(i)` would hide from the compiler what torch's own inline code shows it.
struct TensorBody {
  AtenTensorHandle handle;
  std::atomic<int64_t> uses{1};
  void* data = nullptr;
  const int64_t* sizes = nullptr;
  const int64_t* strides = nullptr;
  int64_t dim = 0;
  int64_t numel = 0;
  ScalarType type = ScalarType::Undefined;
  DeviceType device_type = DeviceType::CPU;
  int8_t device_index = -1;

  explicit TensorBody(AtenTensorHandle owned);
  ~TensorBody();
  TensorBody(const TensorBody&) = delete;
  TensorBody& operator=(const TensorBody&) = delete;
};

class Tensor {
 public:
  Tensor() = default;
  Tensor(const Tensor& other) : body_(other.body_) {
    if (body_) body_->uses.fetch_add(1, std::memory_order_relaxed);
  }
  Tensor(Tensor&& other) noexcept : body_(std::exchange(other.body_, nullptr)) {}
  Tensor& operator=(const Tensor& other) & {
    Tensor(other).swap(*this);
    return *this;
  }
  Tensor& operator=(Tensor&& other) & noexcept {
    Tensor(std::move(other)).swap(*this);
    return *this;
  }
  // Assigning to a temporary, `x[i] = y`, writes through in torch; it is left to torch's own headers.
  Tensor& operator=(const Tensor&) && = delete;
  ~Tensor() {
    if (body_ && body_->uses.fetch_sub(1, std::memory_order_acq_rel) == 1) release();
  }

  // Takes over a handle.
  static Tensor adopt(AtenTensorHandle owned);
  // A handle that the caller owns.
  AtenTensorHandle share() const;
  AtenTensorHandle handle() const { return body().handle; }

  bool defined() const { return body_ != nullptr; }
  int64_t dim() const { return body().dim; }
  int64_t ndimension() const { return dim(); }
  int64_t numel() const { return body().numel; }
  IntArrayRef sizes() const { return IntArrayRef(body().sizes, static_cast<size_t>(dim())); }
  IntArrayRef strides() const { return IntArrayRef(body().strides, static_cast<size_t>(dim())); }
  int64_t size(int64_t d) const { return body().sizes[wrapped(d)]; }
  int64_t stride(int64_t d) const { return body().strides[wrapped(d)]; }
  ScalarType scalar_type() const { return body().type; }
  caffe2::TypeMeta dtype() const { return caffe2::TypeMeta(body().type); }
  size_t element_size() const { return static_cast<size_t>(c10::elementSize(body().type)); }
  size_t itemsize() const { return element_size(); }
  size_t nbytes() const { return static_cast<size_t>(numel()) * element_size(); }
  Device device() const { return Device(body().device_type, body().device_index); }
  bool is_cpu() const { return body().device_type == DeviceType::CPU; }
  bool is_cuda() const { return body().device_type == DeviceType::CUDA; }
  bool is_floating_point() const { return c10::isFloatingType(body().type); }
  bool is_complex() const { return c10::isComplexType(body().type); }
  TensorOptions options() const { return TensorOptions().dtype(body().type).device(device()); }
  bool is_contiguous() const;
  int64_t storage_offset() const;
  bool is_same(const Tensor& other) const { return body_ == other.body_; }

  void* data_ptr() const {
    TensorBody& b = body();
    return b.data ? b.data : fetch_data();
  }
  void* mutable_data_ptr() const { return data_ptr(); }
  const void* const_data_ptr() const { return data_ptr(); }
  template <class T>
  T* data_ptr() const {
    expect<T>();
    return static_cast<T*>(data_ptr());
  }
  template <class T>
  T* mutable_data_ptr() const {
    return data_ptr<T>();
  }
  template <class T>
  const std::remove_const_t<T>* const_data_ptr() const {
    return data_ptr<std::remove_const_t<T>>();
  }
  template <class T, size_t N>
  TensorAccessor<T, N> accessor() const& {
    static_assert(N > 0, "accessor is used for indexing tensor, for scalars use *data_ptr<T>()");
    TORCH_CHECK(dim() == N, "TensorAccessor expected ", N, " dims but tensor has ", dim());
    if constexpr (std::is_const_v<T>) {
      return TensorAccessor<T, N>(const_data_ptr<T>(), body().sizes, body().strides);
    } else {
      return TensorAccessor<T, N>(data_ptr<T>(), body().sizes, body().strides);
    }
  }
  template <class T, size_t N>
  TensorAccessor<T, N> accessor() && = delete;

  Scalar item() const;
  template <class T>
  T item() const {
    return item().template to<T>();
  }

  Tensor& zero_() const;
  Tensor& fill_(const Scalar& value) const;
  Tensor& copy_(const Tensor& source, bool non_blocking = false) const;

  Tensor clone() const;
  Tensor contiguous() const;
  Tensor detach() const;
  Tensor to(ScalarType type) const;
  Tensor to(caffe2::TypeMeta type) const;
  Tensor cpu() const;
  Tensor view(IntArrayRef sizes) const;
  Tensor reshape(IntArrayRef sizes) const;
  Tensor view_as(const Tensor& other) const;
  Tensor reshape_as(const Tensor& other) const;
  Tensor expand(IntArrayRef sizes) const;
  Tensor expand_as(const Tensor& other) const;
  Tensor permute(IntArrayRef dims) const;
  Tensor transpose(int64_t a, int64_t b) const;
  Tensor t() const;
  Tensor squeeze() const;
  Tensor squeeze(int64_t d) const;
  Tensor unsqueeze(int64_t d) const;
  Tensor select(int64_t d, int64_t index) const;
  Tensor narrow(int64_t d, int64_t start, int64_t length) const;
  Tensor slice(int64_t d, std::optional<int64_t> start, std::optional<int64_t> end, int64_t step = 1) const;
  Tensor flatten(int64_t start = 0, int64_t end = -1) const;
  Tensor operator[](int64_t index) const;
  Tensor sum() const;
  Tensor sum(IntArrayRef dims, bool keepdim = false) const;
  Tensor mean() const;
  Tensor mean(IntArrayRef dims, bool keepdim = false) const;
  Tensor max() const;
  Tensor min() const;
  Tensor amax(IntArrayRef dims, bool keepdim = false) const;
  Tensor amin(IntArrayRef dims, bool keepdim = false) const;
  Tensor exp() const;
  Tensor log() const;
  Tensor sqrt() const;
  Tensor abs() const;
  Tensor neg() const;
  Tensor tanh() const;
  Tensor sigmoid() const;
  Tensor relu() const;
  Tensor matmul(const Tensor& other) const;
  Tensor mm(const Tensor& other) const;
  Tensor add(const Tensor& other) const;
  Tensor sub(const Tensor& other) const;
  Tensor mul(const Tensor& other) const;
  Tensor div(const Tensor& other) const;
  Tensor add(const Scalar& other) const;
  Tensor sub(const Scalar& other) const;
  Tensor mul(const Scalar& other) const;
  Tensor div(const Scalar& other) const;
  Tensor eq(const Tensor& other) const;
  Tensor ne(const Tensor& other) const;
  Tensor lt(const Tensor& other) const;
  Tensor le(const Tensor& other) const;
  Tensor gt(const Tensor& other) const;
  Tensor ge(const Tensor& other) const;
  Tensor eq(const Scalar& other) const;
  Tensor ne(const Scalar& other) const;
  Tensor lt(const Scalar& other) const;
  Tensor le(const Scalar& other) const;
  Tensor gt(const Scalar& other) const;
  Tensor ge(const Scalar& other) const;
  Tensor softmax(int64_t d) const;
  Tensor nonzero() const;
  Tensor index_select(int64_t d, const Tensor& index) const;
  Tensor argsort(int64_t d = -1, bool descending = false) const;
  std::tuple<Tensor, Tensor> sort(int64_t d = -1, bool descending = false) const;
  std::tuple<Tensor, Tensor> max(int64_t d, bool keepdim = false) const;
  std::tuple<Tensor, Tensor> min(int64_t d, bool keepdim = false) const;

 private:
  void swap(Tensor& other) noexcept { std::swap(body_, other.body_); }
  void release() noexcept;
  void* fetch_data() const;
  [[noreturn, gnu::cold]] static void undefined();
  [[noreturn, gnu::cold]] static void out_of_range(int64_t d, int64_t n);
  [[noreturn, gnu::cold]] void wrong_type(ScalarType wanted) const;
  TensorBody& body() const {
    if (C10_UNLIKELY(!body_)) undefined();
    return *body_;
  }
  int64_t wrapped(int64_t d) const {
    const int64_t n = dim();
    if (C10_UNLIKELY(d < -n || d >= n)) out_of_range(d, n);
    return d < 0 ? d + n : d;
  }
  template <class T>
  void expect() const {
    constexpr ScalarType wanted = c10::CppTypeToScalarType<std::remove_const_t<T>>::value;
    if (C10_UNLIKELY(scalar_type() != wanted)) wrong_type(wanted);
  }

  TensorBody* body_ = nullptr;
};

} // namespace thin
} // namespace at

namespace kernel_lsp {

template <>
struct Value<at::Tensor> {
  static std::string schema() { return "Tensor"; }
  static constexpr bool strict = true;
  static at::Tensor take(StableIValue v) { return at::Tensor::adopt(reinterpret_cast<AtenTensorHandle>(v)); }
  static StableIValue give(const at::Tensor& t) { return reinterpret_cast<StableIValue>(t.share()); }
};

} // namespace kernel_lsp
