import torch
import torch.nn.functional as F
from torch import nn


class Model(nn.Module):
    """Layer normalisation with weight and bias over the features."""

    def __init__(self, features: int, eps: float):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(features))
        self.bias = nn.Parameter(torch.randn(features))
        self.eps = eps

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.layer_norm(x, self.weight.shape, self.weight, self.bias, self.eps)


batch = 1024
features = 1024
eps = 1e-5


def get_inputs():
    return [torch.randn(batch, features)]


def get_init_inputs():
    return [features, eps]
