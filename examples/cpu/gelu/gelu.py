import torch
import torch.nn.functional as F
from torch import nn


class Model(nn.Module):
    """GELU with the tanh approximation, as in GPT-2."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.gelu(x, approximate="tanh")


batch_size = 512
dim = 2048


def get_inputs():
    return [torch.randn(batch_size, dim)]


def get_init_inputs():
    return []
