#include <algorithm>

extern "C" void matmul(const float* a, const float* b, float* c, int n, int m, int p) {
  constexpr int TILE = 64;
#pragma omp parallel for
  for (int ii = 0; ii < n; ii += TILE)
    for (int kk = 0; kk < p; kk += TILE)
      for (int jj = 0; jj < m; jj += TILE)
        for (int i = ii; i < std::min(ii + TILE, n); ++i)
          for (int k = kk; k < std::min(kk + TILE, p); ++k) {
            const float scale = a[i * p + k];
            for (int j = jj; j < std::min(jj + TILE, m); ++j)
              c[i * m + j] += scale * b[k * m + j];
          }
}
