// Windows line ends, a form feed and letters beyond ASCII: déjà vu   one line still.
#include <cstdint>

extern "C" void scale(float *x, int64_t n, float by) {
  /* 😀 */ for (int64_t i = 0; i < n; ++i) { x[i] *= by; } // ← here
}
