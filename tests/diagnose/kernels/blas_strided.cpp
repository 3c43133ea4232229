// A stride that is a parameter is mostly 1 when it runs, and no loop order mends it.
extern "C" void scale(float* x, int n, int incx, float alpha) {
  for (int i = 0; i < n; ++i) {
    x[i * incx] = alpha * x[i * incx];
  }
}
