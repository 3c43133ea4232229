import torch

ROWS, FEATURES = 4096, 1024
EPSILON = 1e-5


class Model(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.rand(FEATURES) + 0.5)
        self.bias = torch.nn.Parameter(torch.randn(FEATURES))
        self.epsilon = EPSILON

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.layer_norm(x, (x.shape[-1],), self.weight, self.bias, self.epsilon)


def get_inputs():
    return [torch.randn(ROWS, FEATURES)]


def get_init_inputs():
    return []
