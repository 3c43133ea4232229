// out = a b, row by row
static float dot(const float* x, const float* y, int n, int step) {
  float sum = 0;
  for (int i = 0; i < n; ++i) sum += x[i] * y[i * step];
  return sum;
}

extern "C" void kernel(const float* a, const float* b, float* out, int n, int m, int k) {
  #pragma omp parallel for
  for (int i = 0; i < n; ++i)
    for (int j = 0; j < m; ++j)
      out[i * m + j] = dot(a + i * k, b + j, k, m);
}
