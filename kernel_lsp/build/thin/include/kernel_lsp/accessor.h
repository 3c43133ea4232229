// Packed accessors: sizes and strides by value, for kernels. Needs nothing of the rest, so device code can include it
// alone; both sides of a CUDA file then mean the same type.
#pragma once

#include <cstddef>
#include <cstdint>

#ifdef __CUDACC__
#define KERNEL_LSP_BOTH __host__ __device__
#else
#define KERNEL_LSP_BOTH
#endif

namespace at {
inline namespace thin {

template <class T>
struct DefaultPtrTraits {
  using PtrType = T*;
};
template <class T>
struct RestrictPtrTraits {
  using PtrType = T* __restrict__;
};

// A part of a packed accessor that some indices lead to; it points into the whole one.
template <class T, size_t N, template <class> class Traits, class index_t>
class PackedPart {
 public:
  using PtrType = typename Traits<T>::PtrType;
  KERNEL_LSP_BOTH PackedPart(PtrType data, const index_t* sizes, const index_t* strides)
      : data_(data), sizes_(sizes), strides_(strides) {}
  KERNEL_LSP_BOTH index_t size(index_t i) const { return sizes_[i]; }
  KERNEL_LSP_BOTH index_t stride(index_t i) const { return strides_[i]; }
  KERNEL_LSP_BOTH PtrType data() const { return data_; }
  KERNEL_LSP_BOTH decltype(auto) operator[](index_t i) const {
    if constexpr (N == 1) {
      return (data_[strides_[0] * i]);
    } else {
      return PackedPart<T, N - 1, Traits, index_t>(data_ + strides_[0] * i, sizes_ + 1, strides_ + 1);
    }
  }

 private:
  PtrType data_;
  const index_t* sizes_;
  const index_t* strides_;
};

template <class T, size_t N, template <class> class Traits = DefaultPtrTraits, class index_t = int64_t>
class GenericPackedTensorAccessor {
 public:
  using PtrType = typename Traits<T>::PtrType;
  template <class source_t>
  GenericPackedTensorAccessor(PtrType data, const source_t* sizes, const source_t* strides) : data_(data) {
    for (size_t i = 0; i < N; ++i) {
      sizes_[i] = static_cast<index_t>(sizes[i]);
      strides_[i] = static_cast<index_t>(strides[i]);
    }
  }
  KERNEL_LSP_BOTH index_t size(index_t i) const { return sizes_[i]; }
  KERNEL_LSP_BOTH index_t stride(index_t i) const { return strides_[i]; }
  KERNEL_LSP_BOTH PtrType data() const { return data_; }
  KERNEL_LSP_BOTH decltype(auto) operator[](index_t i) const {
    if constexpr (N == 1) {
      return (data_[strides_[0] * i]);
    } else {
      return PackedPart<T, N - 1, Traits, index_t>(data_ + strides_[0] * i, sizes_ + 1, strides_ + 1);
    }
  }

 private:
  PtrType data_;
  index_t sizes_[N];
  index_t strides_[N];
};

template <class T, size_t N, template <class> class Traits = DefaultPtrTraits>
using PackedTensorAccessor32 = GenericPackedTensorAccessor<T, N, Traits, int32_t>;
template <class T, size_t N, template <class> class Traits = DefaultPtrTraits>
using PackedTensorAccessor64 = GenericPackedTensorAccessor<T, N, Traits, int64_t>;
template <class T, size_t N, template <class> class Traits = DefaultPtrTraits, class index_t = int64_t>
using PackedTensorAccessor = GenericPackedTensorAccessor<T, N, Traits, index_t>;

} // namespace thin
} // namespace at

namespace torch {
using namespace at;
} // namespace torch
