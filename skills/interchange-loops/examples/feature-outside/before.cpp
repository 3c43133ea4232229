// Every element of b's row p, weighted by a's first column, summed over p: the loops are the wrong way round.
extern "C" void kernel(const float* a, const float* b, float* out, int n, int m, int k) {
  for (int i = 0; i < n; i++)
    for (int j = 0; j < m; j++) out[i * m + j] = 0;
  for (int j = 0; j < m; j++) {
    for (int i = 0; i < n; i++) {
      out[i * m + j] += a[i * k] * b[j];
    }
  }
}
