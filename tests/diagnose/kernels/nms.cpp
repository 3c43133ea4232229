#include <torch/extension.h>

// Each box depends on those kept before it: the outer loop is sequential.
torch::Tensor nms(torch::Tensor iou, double threshold) {
  const int64_t n = iou.size(0);
  auto keep = torch::ones({n}, torch::kBool);
  const float* overlap = iou.data_ptr<float>();
  bool* kept = keep.data_ptr<bool>();
  const float limit = threshold;
  for (int64_t i = 0; i < n; ++i) {
    if (!kept[i]) continue;
    for (int64_t j = i + 1; j < n; ++j) {
      if (overlap[i * n + j] > limit) kept[j] = false;
    }
  }
  return keep;
}
