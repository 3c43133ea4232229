#include <torch/extension.h>
#include <cuda_runtime.h>

#define WARP_SIZE 32

template <typename scalar_t>
__device__ __forceinline__ scalar_t warp_sum(scalar_t v) {
#pragma unroll
  for (int offset = WARP_SIZE / 2; offset > 0; offset /= 2) v += __shfl_down_sync(0xffffffff, v, offset);
  return v;
}

template <typename scalar_t>
__global__ void __launch_bounds__(256) row_sum_kernel(const scalar_t* __restrict__ x, scalar_t* out, int n) {
  __shared__ scalar_t partial[8];
  scalar_t sum = 0;
  for (int j = threadIdx.x; j < n; j += blockDim.x) sum += x[blockIdx.x * n + j];
  sum = warp_sum(sum);
  if (threadIdx.x % WARP_SIZE == 0) partial[threadIdx.x / WARP_SIZE] = sum;
  __syncthreads();
  if (threadIdx.x == 0) {
    for (int w = 1; w < 8; ++w) sum += partial[w];
    out[blockIdx.x] = sum;
  }
}

torch::Tensor row_sum(torch::Tensor x) {
  auto out = torch::empty({x.size(0)}, x.options());
  AT_DISPATCH_FLOATING_TYPES(x.scalar_type(), "row_sum", [&] {
    row_sum_kernel<scalar_t><<<x.size(0), 256>>>(x.data_ptr<scalar_t>(), out.data_ptr<scalar_t>(), x.size(1));
  });
  return out;
}
