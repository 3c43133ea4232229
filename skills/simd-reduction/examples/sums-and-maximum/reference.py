import torch

N, M, K = 256, 192, 128


def reference(a, b):
    """Row sums times the overall maximum."""
    return (a.sum(dim=1, keepdim=True) * b.max().clamp(min=0)).expand(-1, b.shape[1]).contiguous()


def inputs():
    return [torch.randn(N, K), torch.randn(K, M)]


def arguments(a, b):
    return {"n": a.shape[0], "m": b.shape[1], "k": a.shape[1]}
