#pragma once

#include <algorithm>

// Boxes are (x1, y1, x2, y2) with x1 <= x2 and y1 <= y2.
template <typename T>
T area(const T* box) {
  return (box[2] - box[0]) * (box[3] - box[1]);
}

// Intersection over union.
template <typename T>
T overlap(const T* a, const T* b) {
  const T width = std::min(a[2], b[2]) - std::max(a[0], b[0]);
  const T height = std::min(a[3], b[3]) - std::max(a[1], b[1]);
  if (width <= 0 || height <= 0) {
    return 0;
  }
  const T both = width * height;
  return both / (area(a) + area(b) - both);
}
