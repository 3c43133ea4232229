// Direct 2-d convolution (NCHW, stride 1, no padding). Slow but easy to check.
#include <torch/extension.h>

torch::Tensor conv2d(torch::Tensor x, torch::Tensor weight, torch::Tensor bias) {
  TORCH_CHECK(x.dim() == 4 && weight.dim() == 4, "conv2d: expected 4-d input and weight");
  TORCH_CHECK(x.size(1) == weight.size(1), "conv2d: channels of input and weight differ");

  const int64_t batch = x.size(0);
  const int64_t in_channels = x.size(1);
  const int64_t out_channels = weight.size(0);
  const int64_t kernel_h = weight.size(2);
  const int64_t kernel_w = weight.size(3);
  const int64_t out_h = x.size(2) - kernel_h + 1;
  const int64_t out_w = x.size(3) - kernel_w + 1;
  TORCH_CHECK(out_h > 0 && out_w > 0, "conv2d: the kernel is larger than the image");

  auto y = torch::zeros({batch, out_channels, out_h, out_w}, x.options());

  auto in = x.accessor<float, 4>();
  auto w = weight.accessor<float, 4>();
  auto b = bias.accessor<float, 1>();
  auto out = y.accessor<float, 4>();

  for (int64_t n = 0; n < batch; n++) {
    for (int64_t oc = 0; oc < out_channels; oc++) {
      for (int64_t i = 0; i < out_h; i++) {
        for (int64_t j = 0; j < out_w; j++) {
          out[n][oc][i][j] = b[oc];
          for (int64_t ic = 0; ic < in_channels; ic++) {
            for (int64_t ki = 0; ki < kernel_h; ki++) {
              for (int64_t kj = 0; kj < kernel_w; kj++) {
                out[n][oc][i][j] += in[n][ic][i + ki][j + kj] * w[oc][ic][ki][kj];
              }
            }
          }
        }
      }
    }
  }
  return y;
}
