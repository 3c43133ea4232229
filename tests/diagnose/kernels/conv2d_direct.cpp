#include <torch/extension.h>

at::Tensor conv2d(const at::Tensor& x, const at::Tensor& w) {
  const int C = x.size(0), H = x.size(1), W = x.size(2);
  const int OC = w.size(0), K = w.size(2);
  const int OH = H - K + 1, OW = W - K + 1;
  auto y = at::zeros({OC, OH, OW}, x.options());
  const float* in = x.data_ptr<float>();
  const float* weight = w.data_ptr<float>();
  float* out = y.data_ptr<float>();
  for (int oc = 0; oc < OC; ++oc)
    for (int oy = 0; oy < OH; ++oy)
      for (int ox = 0; ox < OW; ++ox)
        for (int c = 0; c < C; ++c)
          for (int ky = 0; ky < K; ++ky)
            for (int kx = 0; kx < K; ++kx)
              out[(oc * OH + oy) * OW + ox] +=
                  in[(c * H + oy + ky) * W + ox + kx] * weight[((oc * C + c) * K + ky) * K + kx];
  return y;
}
