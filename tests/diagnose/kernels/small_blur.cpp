extern "C" void blur(const float* image, float* out, int height, int width) {
#pragma omp parallel for
  for (int y = 1; y < height - 1; ++y)
    for (int x = 1; x < width - 1; ++x) {
      float sum = 0.0f;
      for (int dy = -1; dy <= 1; ++dy)
        for (int dx = -1; dx <= 1; ++dx) sum += image[(y + dy) * width + x + dx];
      out[y * width + x] = sum / 9.0f;
    }
}
