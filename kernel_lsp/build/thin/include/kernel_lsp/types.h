// Scalar types, devices, options, sizes: the small values that tensors are described by.
#pragma once

#include <kernel_lsp/error.h>
#include <torch/headeronly/core/DeviceType.h>
#include <torch/headeronly/core/ScalarType.h>

#include <array>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <iterator>
#include <optional>
#include <ostream>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <vector>

namespace c10 {

constexpr ScalarType kByte = ScalarType::Byte, kUInt8 = ScalarType::Byte, kChar = ScalarType::Char,
                     kInt8 = ScalarType::Char, kShort = ScalarType::Short, kInt16 = ScalarType::Short,
                     kInt = ScalarType::Int, kInt32 = ScalarType::Int, kLong = ScalarType::Long,
                     kInt64 = ScalarType::Long, kHalf = ScalarType::Half, kFloat16 = ScalarType::Half,
                     kFloat = ScalarType::Float, kFloat32 = ScalarType::Float, kDouble = ScalarType::Double,
                     kFloat64 = ScalarType::Double, kBool = ScalarType::Bool, kBFloat16 = ScalarType::BFloat16,
                     kComplexFloat = ScalarType::ComplexFloat, kComplexDouble = ScalarType::ComplexDouble;

inline namespace thin {

using std::nullopt;
using std::nullopt_t;
using std::optional;
using std::string_view;

constexpr bool isFloatingType(ScalarType t) {
  return t == kHalf || t == kFloat || t == kDouble || t == kBFloat16;
}
constexpr bool isComplexType(ScalarType t) { return t == kComplexFloat || t == kComplexDouble; }
constexpr bool isIntegralType(ScalarType t, bool include_bool) {
  return t == kByte || t == kChar || t == kShort || t == kInt || t == kLong || (include_bool && t == kBool);
}
inline int64_t elementSize(ScalarType t) {
  switch (t) {
    case kByte: case kChar: case kBool: return 1;
    case kShort: case kHalf: case kBFloat16: return 2;
    case kInt: case kFloat: return 4;
    case kLong: case kDouble: case kComplexFloat: return 8;
    case kComplexDouble: return 16;
    default: ::kernel_lsp::fail(str("element size of ", toString(t), " is not known here"));
  }
}

template <class T>
class ArrayRef final {
 public:
  using value_type = T;
  using iterator = const T*;
  using const_iterator = const T*;
  using reverse_iterator = std::reverse_iterator<iterator>;
  using size_type = size_t;

  constexpr ArrayRef() = default;
  constexpr ArrayRef(const T& one) : data_(&one), length_(1) {}
  constexpr ArrayRef(const T* data, size_t length) : data_(data), length_(length) {}
  constexpr ArrayRef(const T* begin, const T* end) : data_(begin), length_(end - begin) {}
  template <class A>
  ArrayRef(const std::vector<T, A>& v) : data_(v.data()), length_(v.size()) {
    static_assert(!std::is_same_v<T, bool>);
  }
  template <size_t N>
  constexpr ArrayRef(const std::array<T, N>& a) : data_(a.data()), length_(N) {}
  template <size_t N>
  constexpr ArrayRef(const T (&a)[N]) : data_(a), length_(N) {}
  constexpr ArrayRef(const std::initializer_list<T>& l) : data_(l.size() ? l.begin() : nullptr), length_(l.size()) {}

  constexpr iterator begin() const { return data_; }
  constexpr iterator end() const { return data_ + length_; }
  constexpr reverse_iterator rbegin() const { return reverse_iterator(end()); }
  constexpr reverse_iterator rend() const { return reverse_iterator(begin()); }
  constexpr bool empty() const { return length_ == 0; }
  constexpr const T* data() const { return data_; }
  constexpr size_t size() const { return length_; }
  const T& front() const { return at(0); }
  const T& back() const { return at(length_ - 1); }
  constexpr const T& operator[](size_t i) const { return data_[i]; }
  const T& at(size_t i) const {
    TORCH_CHECK(i < length_, "ArrayRef: invalid index Index = ", i, "; Length = ", length_);
    return data_[i];
  }
  std::vector<T> vec() const { return std::vector<T>(begin(), end()); }
  ArrayRef slice(size_t n, size_t m) const {
    TORCH_CHECK(n + m <= length_, "ArrayRef: invalid slice, N = ", n, "; M = ", m, "; size = ", length_);
    return ArrayRef(data_ + n, m);
  }
  ArrayRef slice(size_t n) const {
    TORCH_CHECK(n <= length_, "ArrayRef: invalid slice, N = ", n, "; size = ", length_);
    return slice(n, length_ - n);
  }
  bool equals(ArrayRef other) const {
    if (length_ != other.length_) return false;
    for (size_t i = 0; i < length_; ++i)
      if (!(data_[i] == other.data_[i])) return false;
    return true;
  }

 private:
  const T* data_ = nullptr;
  size_t length_ = 0;
};

template <class T> bool operator==(ArrayRef<T> a, ArrayRef<T> b) { return a.equals(b); }
template <class T> bool operator!=(ArrayRef<T> a, ArrayRef<T> b) { return !a.equals(b); }
template <class T> bool operator==(const std::vector<T>& a, ArrayRef<T> b) { return ArrayRef<T>(a).equals(b); }
template <class T> bool operator!=(const std::vector<T>& a, ArrayRef<T> b) { return !ArrayRef<T>(a).equals(b); }
template <class T> bool operator==(ArrayRef<T> a, const std::vector<T>& b) { return a.equals(ArrayRef<T>(b)); }
template <class T> bool operator!=(ArrayRef<T> a, const std::vector<T>& b) { return !a.equals(ArrayRef<T>(b)); }

template <class T>
std::ostream& operator<<(std::ostream& out, ArrayRef<T> list) {
  out << '[';
  for (size_t i = 0; i < list.size(); ++i) out << (i ? ", " : "") << list[i];
  return out << ']';
}

using IntArrayRef = ArrayRef<int64_t>;

struct Device {
  Device(DeviceType type, int8_t index = -1) : type_(type), index_(index) {}
  DeviceType type() const { return type_; }
  int8_t index() const { return index_; }
  bool has_index() const { return index_ != -1; }
  bool is_cpu() const { return type_ == DeviceType::CPU; }
  bool is_cuda() const { return type_ == DeviceType::CUDA; }
  bool operator==(const Device& other) const { return type_ == other.type_ && index_ == other.index_; }
  bool operator!=(const Device& other) const { return !(*this == other); }

 private:
  DeviceType type_;
  int8_t index_;
};
inline std::ostream& operator<<(std::ostream& out, DeviceType type) {
  return out << (type == DeviceType::CPU    ? "cpu"
                 : type == DeviceType::CUDA ? "cuda"
                                            : "device");
}
inline std::ostream& operator<<(std::ostream& out, const Device& device) {
  out << device.type();
  if (device.has_index()) out << ':' << int(device.index());
  return out;
}

} // namespace thin
} // namespace c10

// What `Tensor::dtype()` returns: compares with scalar types, converts to options.
namespace caffe2 {
inline namespace thin {
class TypeMeta {
 public:
  explicit TypeMeta(c10::ScalarType type) : type_(type) {}
  c10::ScalarType toScalarType() const { return type_; }
  size_t itemsize() const { return static_cast<size_t>(c10::elementSize(type_)); }
  friend bool operator==(TypeMeta a, TypeMeta b) { return a.type_ == b.type_; }
  friend bool operator!=(TypeMeta a, TypeMeta b) { return a.type_ != b.type_; }
  friend bool operator==(TypeMeta a, c10::ScalarType b) { return a.type_ == b; }
  friend bool operator!=(TypeMeta a, c10::ScalarType b) { return a.type_ != b; }
  friend bool operator==(c10::ScalarType a, TypeMeta b) { return a == b.type_; }
  friend bool operator!=(c10::ScalarType a, TypeMeta b) { return a != b.type_; }

 private:
  c10::ScalarType type_;
};
inline const char* name_of(c10::ScalarType type) {
  switch (type) {
    case c10::kByte: return "unsigned char";
    case c10::kChar: return "signed char";
    case c10::kShort: return "short";
    case c10::kInt: return "int";
    case c10::kLong: return "long";
    case c10::kHalf: return "c10::Half";
    case c10::kFloat: return "float";
    case c10::kDouble: return "double";
    case c10::kBool: return "bool";
    case c10::kBFloat16: return "c10::BFloat16";
    default: return toString(type);
  }
}
inline std::ostream& operator<<(std::ostream& out, TypeMeta type) { return out << name_of(type.toScalarType()); }
} // namespace thin
} // namespace caffe2

namespace c10 {
inline namespace thin {

class Scalar {
 public:
  Scalar() : Scalar(int64_t{0}) {}
  template <class T, class = std::enable_if_t<std::is_arithmetic_v<T>>>
  Scalar(T value) {
    if constexpr (std::is_same_v<T, bool>) {
      kind_ = Kind::Bool, integer_ = value;
    } else if constexpr (std::is_floating_point_v<T>) {
      kind_ = Kind::Double, double_ = static_cast<double>(value);
    } else {
      kind_ = Kind::Int, integer_ = static_cast<int64_t>(value);
    }
  }
  Scalar(Half value) : Scalar(static_cast<float>(value)) {}
  Scalar(BFloat16 value) : Scalar(static_cast<float>(value)) {}
  template <class T>
  T to() const {
    return kind_ == Kind::Double ? static_cast<T>(double_) : static_cast<T>(integer_);
  }
  double toDouble() const { return to<double>(); }
  float toFloat() const { return to<float>(); }
  int64_t toLong() const { return to<int64_t>(); }
  int toInt() const { return to<int>(); }
  bool toBool() const { return to<bool>(); }
  bool isFloatingPoint() const { return kind_ == Kind::Double; }
  bool isIntegral(bool include_bool) const { return kind_ == Kind::Int || (include_bool && kind_ == Kind::Bool); }
  bool isBoolean() const { return kind_ == Kind::Bool; }

 private:
  enum class Kind { Bool, Int, Double } kind_;
  union {
    int64_t integer_;
    double double_;
  };
};

struct TensorOptions {
  TensorOptions() = default;
  TensorOptions(ScalarType type) : dtype_(type) {}
  TensorOptions(caffe2::TypeMeta type) : dtype_(type.toScalarType()) {}
  TensorOptions(Device device) : device_(device) {}
  TensorOptions(DeviceType type) : device_(Device(type)) {}

  [[nodiscard]] TensorOptions dtype(ScalarType type) const { auto o = *this; o.dtype_ = type; return o; }
  [[nodiscard]] TensorOptions dtype(caffe2::TypeMeta type) const { return dtype(type.toScalarType()); }
  [[nodiscard]] TensorOptions device(Device device) const { auto o = *this; o.device_ = device; return o; }
  [[nodiscard]] TensorOptions device(DeviceType type, int8_t index = -1) const { return device(Device(type, index)); }
  // Inference only: a tensor that asks for a gradient is left to torch's own headers.
  [[nodiscard]] TensorOptions requires_grad(bool wanted) const {
    TORCH_CHECK(!wanted, "requires_grad(true) is not supported by the thin layer");
    return *this;
  }
  caffe2::TypeMeta dtype() const { return caffe2::TypeMeta(dtype_.value_or(kFloat)); }
  Device device() const { return device_.value_or(Device(DeviceType::CPU)); }
  bool has_dtype() const { return dtype_.has_value(); }
  bool has_device() const { return device_.has_value(); }

 private:
  std::optional<ScalarType> dtype_;
  std::optional<Device> device_;
};

inline TensorOptions dtype(ScalarType type) { return TensorOptions(type); }
inline TensorOptions dtype(caffe2::TypeMeta type) { return TensorOptions(type); }
inline TensorOptions device(Device device) { return TensorOptions(device); }
inline TensorOptions device(DeviceType type) { return TensorOptions(type); }

} // namespace thin
} // namespace c10

namespace at {
using namespace c10;
using caffe2::TypeMeta;
} // namespace at
namespace torch {
using namespace at;
using Dtype = at::ScalarType;
} // namespace torch
