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
