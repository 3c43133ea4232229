// Mean and (biased) variance of every column. The caller allocates the results; the binding is in bindings.cpp.
#include <torch/extension.h>

void column_stats(torch::Tensor x, torch::Tensor mean, torch::Tensor var) {
  TORCH_CHECK(x.dim() == 2, "column_stats: expected a matrix");
  TORCH_CHECK(mean.numel() == x.size(1) && var.numel() == x.size(1), "column_stats: one result per column");
  TORCH_CHECK(mean.is_contiguous() && var.is_contiguous(), "column_stats: results must be contiguous");

  auto input = x.contiguous();
  const int64_t rows = input.size(0);
  const int64_t cols = input.size(1);
  const float* data = input.data_ptr<float>();
  float* mean_out = mean.data_ptr<float>();
  float* var_out = var.data_ptr<float>();

  for (int64_t c = 0; c < cols; c++) {
    float sum = 0;
    for (int64_t r = 0; r < rows; r++) {
      sum += data[r * cols + c];
    }
    mean_out[c] = sum / rows;

    float squares = 0;
    for (int64_t r = 0; r < rows; r++) {
      const float d = data[r * cols + c] - mean_out[c];
      squares += d * d;
    }
    var_out[c] = squares / rows;
  }
}
