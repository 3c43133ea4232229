// The largest product of a's and b's elements, or 0.
extern "C" void kernel(const float* a, const float* b, float* out, int n, int m, int k) {
  for (int i = 0; i < n * m; i++) out[i] = 0;
  for (int i = 0; i < n; i++) {
    for (int j = 0; j < m; j++) {
      for (int p = 0; p < k; p++) {
        const float product = a[i * k + p] * b[p * m + j];
        out[i * m + j] = product > out[i * m + j] ? product : out[i * m + j];
      }
    }
  }
}
