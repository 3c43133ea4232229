import torch

N, M, K = 256, 192, 128


def reference(a, b):
    """b's first row normalised, times a's first column."""
    return a[:, :1] * b[0] / (b[0].square().sum() + 1e-6).sqrt() + (-b[0].square().sum() - 1e-6).exp()


def inputs():
    return [torch.randn(N, K), torch.randn(K, M)]


def arguments(a, b):
    return {"n": a.shape[0], "m": b.shape[1], "k": a.shape[1]}
