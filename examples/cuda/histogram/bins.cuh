#pragma once

// Values outside of the range count for the nearest bin.
__device__ __forceinline__ int bin_of(int value, int bins) {
  return value < 0 ? 0 : (value >= bins ? bins - 1 : value);
}
