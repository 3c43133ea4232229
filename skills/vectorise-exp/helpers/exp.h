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
