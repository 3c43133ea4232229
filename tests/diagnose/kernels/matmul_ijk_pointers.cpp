extern "C" void matmul(const float* a, const float* b, float* c, int n, int m, int p) {
  for (int i = 0; i < n; i++)
    for (int j = 0; j < m; j++) {
      float sum = 0.f;
      for (int k = 0; k < p; k++)
        sum += a[i * p + k] * b[k * m + j];
      c[i * m + j] = sum;
    }
}
