import torch

M = 320
N = 320
K = 320


def reference(a, b):
    return a @ b


def inputs():
    return [torch.randn(M, K), torch.randn(K, N)]


def arguments(a, b):
    """What the C function wants besides the matrices."""
    return {"rows": a.shape[0], "cols": b.shape[1], "inner": a.shape[1]}
