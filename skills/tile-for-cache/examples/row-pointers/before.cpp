// out = a b
extern "C" void kernel(const float* a, const float* b, float* out, int n, int m, int k) {
  for (int i = 0; i < n; ++i) {
    const float* row = a + i * k;
    float* result = out + i * m;
    for (int j = 0; j < m; ++j) {
      float sum = 0.0f;
      for (int p = 0; p < k; ++p)
        sum += row[p] * b[p * m + j];
      result[j] = sum;
    }
  }
}
