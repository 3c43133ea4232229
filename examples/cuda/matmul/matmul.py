import torch

M, N, K = 1024, 1024, 1024


def reference(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return a @ b


def inputs():
    return [torch.randn(M, K), torch.randn(K, N)]
