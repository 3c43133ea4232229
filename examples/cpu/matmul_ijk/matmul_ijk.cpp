// c = a @ b for row-major matrices: a is rows x inner, b is inner x cols.

extern "C" void matmul_ijk(const float* a, const float* b, float* c, int rows, int cols, int inner) {
  for (int i = 0; i < rows; i++) {
    for (int j = 0; j < cols; j++) {
      float sum = 0;
      for (int k = 0; k < inner; k++) {
        sum += a[i * inner + k] * b[k * cols + j];
      }
      c[i * cols + j] = sum;
    }
  }
}
