/* Raw pointers for ctypes, as course work and benchmarks have it. */
#include <math.h>
#include <stddef.h>

extern "C" {

void axpy(size_t n, float a, const float *x, float *__restrict y) {
  for (size_t i = 0; i < n; i++) y[i] = a * x[i] + y[i];
}

float nrm2(int n, const float *x, int incx) {
  double s = 0.0;
  for (int i = 0; i < n; ++i) s += (double)x[i * incx] * x[i * incx];
  return sqrt(s);
}

void gemv(int m, int n, const float *a, int lda, const float *x, float *y) {
  int i, j;
  for (i = 0; i < m; i++) {
    y[i] = 0;
    for (j = 0; j < n; j++) y[i] += a[i + j * lda] * x[j];
  }
}
}
