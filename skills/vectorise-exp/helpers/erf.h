// The error function for float within 2 ulp (polynomials after N. Juffa), in arithmetic that vectorises.
inline float vector_erf(float x) {
  const float t = std::fabs(x);
  const float s = x * x;
  float q = (-1.72853470e-5f * t + 3.83197126e-4f) * s + (-3.88396438e-3f * t + 2.42546219e-2f);
  q = q * t - 1.06777877e-1f;
  q = q * t - 6.34846687e-1f;
  q = q * t - 1.28717512e-1f;
  q = q * t - t;
  const float large = std::copysign(1.0f - vector_exp(q), x);
  float p = -5.96761703e-4f;
  p = p * s + 4.99119423e-3f;
  p = p * s - 2.67681349e-2f;
  p = p * s + 1.12819925e-1f;
  p = p * s - 3.76125336e-1f;
  p = p * s + 1.28379166e-1f;
  const float small = p * x + x;
  std::int32_t bits;
  std::int32_t large_bits;
  std::int32_t small_bits;
  std::memcpy(&bits, &x, sizeof bits);
  std::memcpy(&large_bits, &large, sizeof large_bits);
  std::memcpy(&small_bits, &small, sizeof small_bits);
  const std::int32_t is_large = -static_cast<std::int32_t>((bits & 0x7FFFFFFF) > 0x3F6D8000);  // |x| > 475 / 512
  const std::int32_t result_bits = (large_bits & is_large) | (small_bits & ~is_large);
  float result;
  std::memcpy(&result, &result_bits, sizeof result);
  return result;
}
