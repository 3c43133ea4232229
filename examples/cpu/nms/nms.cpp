// Greedy non-maximum suppression: keep the best box, drop what overlaps it, repeat.
#include <torch/extension.h>

#include <algorithm>
#include <numeric>
#include <vector>

#include "box.h"

template <typename scalar_t>
static void overlap_matrix(const scalar_t* boxes, scalar_t* iou, int64_t n) {
  for (int64_t i = 0; i < n; i++) {
    for (int64_t j = 0; j < n; j++) {
      iou[i * n + j] = overlap(boxes + 4 * i, boxes + 4 * j);
    }
  }
}

template <typename scalar_t>
static void suppress(const scalar_t* scores, const scalar_t* iou, bool* keep, int64_t n, double threshold) {
  std::vector<int64_t> order(n);
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) { return scores[a] > scores[b]; });

  std::fill(keep, keep + n, true);
  for (int64_t i = 0; i < n; i++) {
    if (!keep[order[i]]) {
      continue;
    }
    for (int64_t j = i + 1; j < n; j++) {
      if (iou[order[i] * n + order[j]] > threshold) {
        keep[order[j]] = false;
      }
    }
  }
}

// boxes: (n, 4), scores: (n,). Returns a mask of the boxes that stay.
torch::Tensor nms(torch::Tensor boxes, torch::Tensor scores, double threshold) {
  TORCH_CHECK(boxes.dim() == 2 && boxes.size(1) == 4, "nms: boxes must be (n, 4)");
  TORCH_CHECK(scores.dim() == 1 && scores.size(0) == boxes.size(0), "nms: one score per box");
  TORCH_CHECK(scores.scalar_type() == boxes.scalar_type(), "nms: boxes and scores of one type");
  boxes = boxes.contiguous();
  scores = scores.contiguous();

  const int64_t n = boxes.size(0);
  auto iou = torch::empty({n, n}, boxes.options());
  auto keep = torch::empty({n}, boxes.options().dtype(torch::kBool));

  AT_DISPATCH_FLOATING_TYPES(boxes.scalar_type(), "nms", [&] {
    overlap_matrix<scalar_t>(boxes.data_ptr<scalar_t>(), iou.data_ptr<scalar_t>(), n);
    suppress<scalar_t>(scores.data_ptr<scalar_t>(), iou.data_ptr<scalar_t>(), keep.data_ptr<bool>(), n, threshold);
  });
  return keep;
}
