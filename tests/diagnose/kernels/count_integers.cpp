#include <cstdint>

// The compiler may reorder integer sums: no chain to complain about.
extern "C" int64_t count_positive(const float* x, int64_t n) {
  int64_t count = 0;
  for (int64_t i = 0; i < n; ++i) {
    count += x[i] > 0.0f;
  }
  return count;
}
