#include <torch/extension.h>

void column_stats(torch::Tensor x, torch::Tensor mean, torch::Tensor var);

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  m.def("column_stats", &column_stats, "Mean and variance of every column, written to mean and var",
        py::arg("x"), py::arg("mean"), py::arg("var"));
}
