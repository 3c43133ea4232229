// Launchers with one fault each, over float arrays of n elements: out = x + y. All in one file: nvcc starts once.
#include <cuda_runtime.h>

__global__ void add_kernel(const float* x, const float* y, float* out, int n, float factor) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = factor * (x[i] + y[i]);
}
__global__ void unguarded_kernel(const float* x, const float* y, float* out) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    out[i] = x[i] + y[i];
}
__global__ void store_kernel(float* where, float value) { *where = value; }
__global__ void accumulate_kernel(const float* x, float* out, int rows, int columns) {
    for (int row = 0; row < rows; row++)
        for (int j = blockIdx.x * blockDim.x + threadIdx.x; j < columns; j += gridDim.x * blockDim.x)
            out[row] = out[row] + x[row * columns + j];  // the race
}
__global__ void row_sum_kernel(const float* x, float* out, int columns, bool barrier) {
    __shared__ float part[256];
    float sum = 0;
    for (int j = threadIdx.x; j < columns; j += blockDim.x) sum += x[blockIdx.x * columns + j];
    part[threadIdx.x] = sum;
    __syncthreads();
    for (int step = 128; step > 0; step /= 2) {
        if (threadIdx.x < step) part[threadIdx.x] += part[threadIdx.x + step];
        if (barrier) __syncthreads();
    }
    if (threadIdx.x == 0) out[blockIdx.x] = part[0];
}
__global__ void spin_kernel() {
    while (clock64() >= 0) {}
}
__global__ void in_place_kernel(float* x, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] = 2 * x[i] + 1;
}

static int blocks(int n) { return (n + 255) / 256; }

extern "C" {
void right(const float* x, const float* y, float* out, int n) { add_kernel<<<blocks(n), 256>>>(x, y, out, n, 1); }
void doubled(const float* x, const float* y, float* out, int n) { add_kernel<<<blocks(n), 256>>>(x, y, out, n, 2); }
void one_short(const float* x, const float* y, float* out, int n) {
    add_kernel<<<blocks(n), 256>>>(x, y, out, n - 1, 1);
}
void no_guard(const float* x, const float* y, float* out, int n) { unguarded_kernel<<<blocks(n), 256>>>(x, y, out); }
void one_past(const float* x, const float* y, float* out, int n) {
    add_kernel<<<blocks(n), 256>>>(x, y, out, n, 1);
    store_kernel<<<1, 1>>>(out + n, 7);
}
void one_before(const float* x, const float* y, float* out, int n) {
    add_kernel<<<blocks(n), 256>>>(x, y, out, n, 1);
    store_kernel<<<1, 1>>>(out - 1, 7);
}
void illegal(const float* x, const float* y, float* out, int n) {
    add_kernel<<<blocks(n), 256>>>(x, y, out, n, 1);
    store_kernel<<<1, 1>>>((float*)16, 7);
}
void changes_input(const float* x, const float* y, float* out, int n) {
    add_kernel<<<blocks(n), 256>>>(x, y, out, n, 1);
    store_kernel<<<1, 1>>>((float*)y + 3, 7);
}
void bad_launch(const float* x, const float* y, float* out, int n) { add_kernel<<<blocks(n), 4096>>>(x, y, out, n, 1); }
void half_bad(const float* x, const float* y, float* out, int n) {
    add_kernel<<<blocks(n), 256>>>(x, y, out, n, 1);
    add_kernel<<<1, 4096>>>(x, y, out, n, 1);
}
void on_stream(const float* x, const float* y, float* out, int n, cudaStream_t stream) {
    add_kernel<<<blocks(n), 256, 0, stream>>>(x, y, out, n, 1);
}
void on_legacy(const float* x, const float* y, float* out, int n, cudaStream_t stream) {
    add_kernel<<<blocks(n), 256>>>(x, y, out, n, 1);
}
void hang(const float* x, const float* y, float* out, int n) { spin_kernel<<<1, 1>>>(); }
void row_sum(const float* x, float* out, int rows, int columns) { row_sum_kernel<<<rows, 256>>>(x, out, columns, true); }
void no_barrier(const float* x, float* out, int rows, int columns) {
    row_sum_kernel<<<rows, 256>>>(x, out, columns, false);
}
void racing(const float* x, float* out, int rows, int columns) {
    cudaMemset(out, 0, rows * sizeof(float));
    accumulate_kernel<<<32, 256>>>(x, out, rows, columns);
}
void in_place(float* x, int n) { in_place_kernel<<<blocks(n), 256>>>(x, n); }
}
