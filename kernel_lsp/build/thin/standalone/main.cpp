// `run_kernel LIBRARY NAMESPACE::FUNCTION WORD…`
#include "standalone.h"

#include <dlfcn.h>

#include <cstdio>
#include <exception>

int main(int argc, char** argv) {
  if (argc < 3) return std::fprintf(stderr, "usage: %s LIBRARY NAMESPACE::FUNCTION WORD…\n", argv[0]), 3;
  if (!dlopen(argv[1], RTLD_NOW | RTLD_LOCAL)) return std::fprintf(stderr, "cannot load: %s\n", dlerror()), 3;
  try {
    standalone::call(argv[2], {argv + 3, argv + argc});
  } catch (const std::exception& error) {
    return std::fprintf(stderr, "the kernel raised: %s\n", error.what()), 4;
  }
  return 0;
}
