// After the shape of the detection operators: plain C helpers, a struct, conditional compilation, OpenMP, namespaces.
#include <torch/library.h>
#include <ATen/ATen.h>

#if defined(_OPENMP)
#include <omp.h>
#endif

namespace vision {
namespace ops {

namespace {

struct PreCalc {
  int pos[4];
  float w[4];
};

float bilinear(const float* data, int height, int width, float y, float x) {
  if (y < -1.0 || y > height || x < -1.0 || x > width) return 0;
  int y_low = (int)y, x_low = (int)x;
  float ly = y - y_low, lx = x - x_low;
  float hy = 1. - ly, hx = 1. - lx;
  return hy * hx * data[y_low * width + x_low] + ly * lx * data[(y_low + 1) * width + x_low + 1];
}

void roi_align_kernel(
    int n_rois, const float* input, float spatial_scale, int channels, int height, int width,
    int pooled_height, int pooled_width, const float* rois, float* output) {
#pragma omp parallel for num_threads(32) schedule(static)
  for (int n = 0; n < n_rois; n++) {
    int index_n = n * channels * pooled_width * pooled_height;
    const float* offset_rois = rois + n * 5;
    int roi_batch_ind = offset_rois[0];
    for (int c = 0; c < channels; c++) {
      int index_n_c = index_n + c * pooled_width * pooled_height;
      const float* offset_input = input + (roi_batch_ind * channels + c) * height * width;
      for (int ph = 0; ph < pooled_height; ph++) {
        for (int pw = 0; pw < pooled_width; pw++) {
          int index = index_n_c + ph * pooled_width + pw;
          output[index] = bilinear(offset_input, height, width, ph * spatial_scale, pw * spatial_scale);
        }  // for pw
      }    // for ph
    }      // for c
  }        // for n
}

at::Tensor roi_align_forward(const at::Tensor& input, const at::Tensor& rois, double spatial_scale,
                             int64_t pooled_height, int64_t pooled_width) {
  TORCH_CHECK(input.device().is_cpu(), "input must be a CPU tensor");
  auto num_rois = rois.size(0);
  at::Tensor output = at::zeros({num_rois, input.size(1), pooled_height, pooled_width}, input.options());
  roi_align_kernel(num_rois, input.contiguous().data_ptr<float>(), spatial_scale, input.size(1), input.size(2),
                   input.size(3), pooled_height, pooled_width, rois.data_ptr<float>(), output.data_ptr<float>());
  return output;
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(vision_ops, m) {
  m.def(TORCH_SELECTIVE_SCHEMA(
      "vision_ops::roi_align(Tensor input, Tensor rois, float spatial_scale, "
      "int pooled_height, int pooled_width) -> Tensor"));
}

TORCH_LIBRARY_IMPL(vision_ops, CPU, m) {
  m.impl(TORCH_SELECTIVE_NAME("vision_ops::roi_align"), TORCH_FN(roi_align_forward));
}

}  // namespace ops
}  // namespace vision
