import torch

ROWS, COLS = 512, 1024


def reference(x, w):
    return x * w


def inputs():
    return [torch.randn(ROWS, COLS), torch.randn(COLS)]


def arguments(x, w):
    return {"rows": x.shape[0], "cols": x.shape[1]}
