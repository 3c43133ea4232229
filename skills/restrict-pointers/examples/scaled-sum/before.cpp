// a's first column plus b's first row.
extern "C" void kernel(const float* a, const float* b, float* out, int n, int m, int k) {
  for (int i = 0; i < n; i++)
    for (int j = 0; j < m; j++) out[i * m + j] = a[i * k] + b[j];
}
