import torch

ROWS = 4096
COLS = 512


def reference(x):
    return x.mean(dim=0), x.var(dim=0, unbiased=False)


def inputs():
    return [torch.randn(ROWS, COLS)]
