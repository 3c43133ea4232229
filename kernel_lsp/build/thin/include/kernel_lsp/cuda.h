// Streams, guards and checks of torch's CUDA side, over the CUDA runtime and torch's stable C ABI.
#pragma once

#include <cuda_runtime.h>
#include <kernel_lsp/thin.h>

extern "C" AOTITorchError aoti_torch_get_current_cuda_stream(int32_t device_index, void** stream);

#define C10_CUDA_CHECK(EXPR)                                                                   \
  do {                                                                                         \
    const cudaError_t kernel_lsp_error = EXPR;                                                 \
    if (C10_UNLIKELY(kernel_lsp_error != cudaSuccess)) {                                       \
      (void)cudaGetLastError();                                                                \
      ::kernel_lsp::fail(::c10::str("CUDA error: ", cudaGetErrorString(kernel_lsp_error)));    \
    }                                                                                          \
  } while (0)
#define C10_CUDA_KERNEL_LAUNCH_CHECK() C10_CUDA_CHECK(cudaGetLastError())
#define C10_CUDA_CHECK_WARN(EXPR) C10_CUDA_CHECK(EXPR)
#define AT_CUDA_CHECK(EXPR) C10_CUDA_CHECK(EXPR)

namespace c10 {
namespace cuda {
inline namespace thin {

inline int8_t current_device() {
  int device = 0;
  C10_CUDA_CHECK(cudaGetDevice(&device));
  return static_cast<int8_t>(device);
}
inline int8_t device_count() {
  int count = 0;
  C10_CUDA_CHECK(cudaGetDeviceCount(&count));
  return static_cast<int8_t>(count);
}
inline void set_device(int8_t device) { C10_CUDA_CHECK(cudaSetDevice(device)); }
inline void device_synchronize() { C10_CUDA_CHECK(cudaDeviceSynchronize()); }

class CUDAStream {
 public:
  CUDAStream(cudaStream_t stream, int8_t device) : stream_(stream), device_(device) {}
  operator cudaStream_t() const { return stream_; }
  cudaStream_t stream() const { return stream_; }
  int8_t device_index() const { return device_; }
  void synchronize() const { C10_CUDA_CHECK(cudaStreamSynchronize(stream_)); }

 private:
  cudaStream_t stream_;
  int8_t device_;
};

inline CUDAStream getCurrentCUDAStream(int8_t device = -1) {
  if (device < 0) device = current_device();
  void* stream = nullptr;
  ::kernel_lsp::ok(aoti_torch_get_current_cuda_stream(device, &stream));
  return CUDAStream(static_cast<cudaStream_t>(stream), device);
}

// The device of a tensor for as long as this lives; without one, nothing changes.
class OptionalCUDAGuard {
 public:
  OptionalCUDAGuard() = default;
  explicit OptionalCUDAGuard(std::optional<Device> device) {
    if (!device || !device->is_cuda() || !device->has_index()) return;
    before_ = current_device();
    if (*before_ != device->index()) set_device(device->index());
  }
  ~OptionalCUDAGuard() {
    if (before_) (void)cudaSetDevice(*before_);
  }
  OptionalCUDAGuard(const OptionalCUDAGuard&) = delete;
  OptionalCUDAGuard& operator=(const OptionalCUDAGuard&) = delete;

 private:
  std::optional<int8_t> before_;
};

class CUDAGuard : public OptionalCUDAGuard {
 public:
  explicit CUDAGuard(Device device) : OptionalCUDAGuard(std::optional<Device>(device)) {}
  explicit CUDAGuard(int8_t device) : OptionalCUDAGuard(Device(DeviceType::CUDA, device)) {}
};

} // namespace thin
} // namespace cuda
} // namespace c10

namespace at {
inline namespace thin {
inline std::optional<c10::Device> device_of(const Tensor& x) {
  return x.defined() ? std::optional<c10::Device>(x.device()) : std::nullopt;
}
using DeviceGuard = c10::cuda::CUDAGuard;
using OptionalDeviceGuard = c10::cuda::OptionalCUDAGuard;
} // namespace thin
namespace cuda {
using namespace c10::cuda;
inline cudaDeviceProp* getCurrentDeviceProperties() {
  static cudaDeviceProp properties[64];
  static bool known[64] = {};
  const int device = c10::cuda::current_device();
  if (!known[device]) {
    C10_CUDA_CHECK(cudaGetDeviceProperties(&properties[device], device));
    known[device] = true;
  }
  return &properties[device];
}
} // namespace cuda
} // namespace at
