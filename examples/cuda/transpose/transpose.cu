// out[c][r] = in[r][c]: reads along rows, writes down columns, a cache line for each float.
#include <cstdint>
#include <cuda_runtime.h>

__global__ void transpose_kernel(const float* in, float* out, int rows, int cols) {
  const int c = blockIdx.x * blockDim.x + threadIdx.x;
  const int r = blockIdx.y * blockDim.y + threadIdx.y;
  if (r < rows && c < cols) {
    out[static_cast<int64_t>(c) * rows + r] = in[static_cast<int64_t>(r) * cols + c];
  }
}

extern "C" void transpose(const float* in, float* out, int64_t rows, int64_t cols, void* stream) {
  const dim3 block(32, 8);
  const dim3 grid((cols + 31) / 32, (rows + 7) / 8);
  transpose_kernel<<<grid, block, 0, static_cast<cudaStream_t>(stream)>>>(in, out, rows, cols);
}
