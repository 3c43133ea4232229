// Everything of the thin layer. It is one whole because it is precompiled as one.
#pragma once

#include <ATen/Dispatch.h>
#include <kernel_lsp/library.h>
#include <kernel_lsp/ops.h>
#include <kernel_lsp/parallel.h>
#include <kernel_lsp/pybind.h>

// What torch's own headers bring along, and files rely on.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <functional>
#include <iostream>
#include <limits>
#include <memory>
#include <mutex>
#include <numeric>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

namespace kernel_lsp {

// What AT_DISPATCH_… becomes in the copy of the file that is compiled; see build/dispatch.py.
template <c10::ScalarType First, c10::ScalarType... Rest, class F>
inline auto dispatch(c10::ScalarType type, const char* name, const F& function) {
  if (type == First) return function.template operator()<c10::impl::ScalarTypeToCPPTypeT<First>>();
  if constexpr (sizeof...(Rest) > 0) {
    return dispatch<Rest...>(type, name, function);
  } else {
    fail_check("", '"', name, "\" not implemented for '", toString(type), "'");
  }
}

} // namespace kernel_lsp

namespace c10 {
inline namespace thin {

template <class I>
class IntegerRange {
 public:
  class iterator {
   public:
    using iterator_category = std::input_iterator_tag;
    using value_type = I;
    using difference_type = std::ptrdiff_t;
    using pointer = I*;
    using reference = I&;
    constexpr explicit iterator(I value) : value_(value) {}
    constexpr I operator*() const { return value_; }
    constexpr iterator& operator++() { return ++value_, *this; }
    constexpr bool operator==(const iterator& other) const { return value_ == other.value_; }
    constexpr bool operator!=(const iterator& other) const { return value_ != other.value_; }

   private:
    I value_;
  };
  constexpr IntegerRange(I begin, I end) : begin_(begin), end_(end) {}
  constexpr iterator begin() const { return begin_; }
  constexpr iterator end() const { return end_; }

 private:
  iterator begin_, end_;
};
template <class A, class B>
constexpr IntegerRange<B> irange(A begin, B end) {
  return {static_cast<B>(begin), std::max(static_cast<B>(begin), end)};
}
template <class I>
constexpr IntegerRange<I> irange(I end) {
  return {I{0}, std::max(I{0}, end)};
}

} // namespace thin
} // namespace c10
