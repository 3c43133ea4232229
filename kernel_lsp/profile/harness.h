// Arguments of one kernel call, from the command line: what a harness without Python has in the place of a caller.
// A tensor is `file bytes dtype sizes` in one argument, `0.bin 48 float32 3,4`; `-` for the file means zeros.
#pragma once

#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace harness {

[[noreturn]] inline void fail(const char* what, const char* which) {
  std::fprintf(stderr, "%s: %s\n", what, which);
  std::exit(3);
}

struct Tensor {
  void* data;
  char dtype[32];
  char sizes[512];
};

inline Tensor tensor(const char* text) {
  Tensor made{};
  char file[256];
  std::size_t bytes = 0;
  if (std::sscanf(text, "%255s %zu %31s %511s", file, &bytes, made.dtype, made.sizes) < 3) fail("not a tensor", text);
  // As torch aligns its own allocations, with a little room so that an empty tensor has an address too.
  if (posix_memalign(&made.data, 64, bytes + 64) != 0) fail("no memory for", text);
  if (std::strcmp(file, "-") == 0) {
    std::memset(made.data, 0, bytes);
    return made;
  }
  std::FILE* stream = std::fopen(file, "rb");
  if (stream == nullptr || std::fread(made.data, 1, bytes, stream) != bytes) fail("cannot read", text);
  std::fclose(stream);
  return made;
}

inline long long integer(const char* text) { return std::strtoll(text, nullptr, 0); }
inline double real(const char* text) { return std::strtod(text, nullptr); }
inline bool boolean(const char* text) { return std::strcmp(text, "true") == 0 || std::strcmp(text, "1") == 0; }

inline void* load(const char* library) {
  void* handle = dlopen(library, RTLD_NOW | RTLD_GLOBAL);
  if (handle == nullptr) fail("cannot load", dlerror());
  return handle;
}

inline void* find(void* library, const char* name) {
  void* found = dlsym(library, name);
  if (found == nullptr) fail("cannot find", name);
  return found;
}

}  // namespace harness
