// C++ values to and from the 64-bit cells in which torch's stable ABI passes arguments, with their names in schemas.
#pragma once

#include <kernel_lsp/types.h>

#include <memory>

namespace kernel_lsp {

// `schema`: the type's name in an operator schema. `strict`: torch::Library takes it too, not only pybind11.
// A type without a specialisation does not compile, and the file is built over torch's own headers.
template <class T, class = void>
struct Value;

[[noreturn, gnu::cold]] void fail_narrow(int64_t number);

inline StableIValue cell(const void* data, size_t bytes) {
  StableIValue v = 0;
  std::memcpy(&v, data, bytes);
  return v;
}

template <class T>
struct Value<T, std::enable_if_t<std::is_integral_v<T> && !std::is_same_v<T, bool> && sizeof(T) >= 2>> {
  static std::string schema() { return "int"; }
  static constexpr bool strict = std::is_same_v<T, int64_t>;
  static T take(StableIValue v) {
    int64_t wide = 0;
    std::memcpy(&wide, &v, sizeof wide);
    const T narrow = static_cast<T>(wide);
    if (static_cast<int64_t>(narrow) != wide || (std::is_unsigned_v<T> && wide < 0))
      fail_narrow(wide);
    return narrow;
  }
  static StableIValue give(T value) {
    const int64_t wide = static_cast<int64_t>(value);
    return cell(&wide, sizeof wide);
  }
};

template <class T>
struct Value<T, std::enable_if_t<std::is_same_v<T, double> || std::is_same_v<T, float>>> {
  static std::string schema() { return "float"; }
  static constexpr bool strict = std::is_same_v<T, double>;
  static T take(StableIValue v) {
    double wide = 0;
    std::memcpy(&wide, &v, sizeof wide);
    return static_cast<T>(wide);
  }
  static StableIValue give(T value) {
    const double wide = value;
    return cell(&wide, sizeof wide);
  }
};

template <>
struct Value<bool> {
  static std::string schema() { return "bool"; }
  static constexpr bool strict = true;
  static bool take(StableIValue v) {
    bool value = false;
    std::memcpy(&value, &v, sizeof value);
    return value;
  }
  static StableIValue give(bool value) { return cell(&value, sizeof value); }
};

template <>
struct Value<c10::ScalarType> {
  static std::string schema() { return "ScalarType"; }
  static constexpr bool strict = true;
  static c10::ScalarType take(StableIValue v) {
    int32_t value = 0;
    std::memcpy(&value, &v, sizeof value);
    return static_cast<c10::ScalarType>(value);
  }
  static StableIValue give(c10::ScalarType type) {
    const int32_t value = static_cast<int32_t>(type);
    return cell(&value, sizeof value);
  }
};

template <>
struct Value<std::string> {
  static std::string schema() { return "str"; }
  static constexpr bool strict = true;
  static std::string take(StableIValue v);
  static StableIValue give(const std::string& text);
};

template <class T>
struct Value<std::vector<T>> {
  static std::string schema() { return Value<T>::schema() + "[]"; }
  static constexpr bool strict = Value<T>::strict;
  static std::vector<T> take(StableIValue v) {
    const auto list = reinterpret_cast<StableListHandle>(v);
    size_t size = 0;
    ok(torch_list_size(list, &size));
    std::vector<T> items;
    items.reserve(size);
    for (size_t i = 0; i < size; ++i) {
      StableIValue item = 0;
      ok(torch_list_get_item(list, i, &item));
      items.push_back(Value<T>::take(item));
    }
    torch_delete_list(list);
    return items;
  }
  template <class List>
  static StableIValue give(const List& items) {
    StableListHandle list = nullptr;
    ok(torch_new_list_reserve_size(items.size(), &list));
    for (const T& item : items) ok(torch_list_push_back(list, Value<T>::give(item)));
    return reinterpret_cast<StableIValue>(list);
  }
};

template <class T>
struct Value<c10::ArrayRef<T>> : Value<std::vector<T>> {};

template <class T>
struct Value<std::optional<T>> {
  static std::string schema() { return Value<T>::schema() + "?"; }
  static constexpr bool strict = Value<T>::strict;
  // Present: a cell on the heap, which the receiver deletes. Absent: zero.
  static std::optional<T> take(StableIValue v) {
    if (v == 0) return std::nullopt;
    const std::unique_ptr<StableIValue> inner(reinterpret_cast<StableIValue*>(v));
    return Value<T>::take(*inner);
  }
  static StableIValue give(const std::optional<T>& value) {
    return value ? reinterpret_cast<StableIValue>(new StableIValue(Value<T>::give(*value))) : 0;
  }
};

} // namespace kernel_lsp
