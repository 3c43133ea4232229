// out = a b
extern "C" void kernel(const float* a, const float* b, float* out, int n, int m, int k) {
  for (int i = 0; i < n; i++) {
    for (int j = 0; j < m; j++) {
      float out_value = 0;
      for (int p = 0; p < k; p++) {
        out_value += a[i * k + p] * b[p * m + j];  // one load and one store each time
      }
      out[i * m + j] = out_value;
    }
  }
}
