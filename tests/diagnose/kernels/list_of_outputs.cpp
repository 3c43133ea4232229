#include <torch/extension.h>
#include <vector>

std::vector<torch::Tensor> like(const std::vector<torch::Tensor>& inputs) {
  std::vector<torch::Tensor> outputs;
  for (const auto& input : inputs) {
    outputs.push_back(torch::empty_like(input));
  }
  for (size_t i = 0; i < inputs.size(); ++i) {
    TORCH_CHECK(inputs[i].is_contiguous(), "input ", i, " is not contiguous");
  }
  return outputs;
}
