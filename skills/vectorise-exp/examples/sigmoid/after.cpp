#include <cmath>
#include <cstdint>
#include <cstring>

// e^x for float within 2 ulp, subnormal results included (Cephes' polynomial). Without branches, and with integer
// comparisons only, for one of floats may trap, which keeps compilers from vectorising the loop around.
inline float vector_exp(float x) {
  std::int32_t bits;
  std::memcpy(&bits, &x, sizeof bits);
  const std::int32_t size = bits & 0x7FFFFFFF;
  const std::int32_t limited = (size < 0x42DC0000 ? size : 0x42DC0000) | (bits - size);  // |x| <= 110
  const std::int32_t nan_bits = size > 0x7F800000 ? 0x7FC00000 : 0;
  float nan_or_zero;
  std::memcpy(&x, &limited, sizeof x);
  std::memcpy(&nan_or_zero, &nan_bits, sizeof nan_or_zero);
  const float shifted = x * 1.44269504f + 12582912.0f;  // 1.5 * 2^23: the low bits hold x / ln 2, rounded
  std::memcpy(&bits, &shifted, sizeof bits);
  const std::int32_t n = bits - 0x4B400000;
  const float whole = static_cast<float>(n);
  const float r = (x - whole * 0.693359375f) + whole * 2.12194440e-4f;
  float p = 1.9875691500e-4f;
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = p * r * r + r + 1.0f;
  const std::int32_t half = n >> 1;  // 2^n in two factors, so that neither overflows before the result does
  const std::int32_t low_bits = (half + 127) * (1 << 23);
  const std::int32_t high_bits = (n - half + 127) * (1 << 23);
  float low;
  float high;
  std::memcpy(&low, &low_bits, sizeof low);
  std::memcpy(&high, &high_bits, sizeof high);
  return p * low * high + nan_or_zero;
}

// tanh for float within 2 ulp (Cephes' polynomial near 0, through e^2x elsewhere), in arithmetic that vectorises.
inline float vector_tanh(float x) {
  const float large = std::copysign(1.0f - 2.0f / (vector_exp(2.0f * std::fabs(x)) + 1.0f), x);
  const float z = x * x;
  float p = -5.70498872745e-3f;
  p = p * z + 2.06390887954e-2f;
  p = p * z - 5.37397155531e-2f;
  p = p * z + 1.33314422036e-1f;
  p = p * z - 3.33332819422e-1f;
  const float small = x + x * z * p;
  std::int32_t bits;
  std::int32_t large_bits;
  std::int32_t small_bits;
  std::memcpy(&bits, &x, sizeof bits);
  std::memcpy(&large_bits, &large, sizeof large_bits);
  std::memcpy(&small_bits, &small, sizeof small_bits);
  const std::int32_t is_large = -static_cast<std::int32_t>((bits & 0x7FFFFFFF) > 0x3F200000);  // |x| > 0.625
  const std::int32_t result_bits = (large_bits & is_large) | (small_bits & ~is_large);
  float result;
  std::memcpy(&result, &result_bits, sizeof result);
  return result;
}

// The logistic function of the outer product, by tanh on even rows and by exp on odd ones.
extern "C" void kernel(const float* a, const float* b, float* out, int n, int m, int k) {
  for (int i = 0; i < n; ++i) {
    const float scale = a[i * k];
    if (i % 2 == 0) {
      #pragma omp simd
      for (int j = 0; j < m; ++j) out[i * m + j] = 0.5f + 0.5f * vector_tanh(0.5f * scale * b[j]);
    } else {
      #pragma omp simd
      for (int j = 0; j < m; ++j) out[i * m + j] = 1.0f / (1.0f + vector_exp(-scale * b[j]));
    }
  }
}
