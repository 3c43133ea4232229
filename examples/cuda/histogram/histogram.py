import torch

N = 1 << 22
BINS = 64


def reference(values: torch.Tensor) -> torch.Tensor:
    return torch.bincount(values.clamp(0, BINS - 1), minlength=BINS).to(torch.int32)


def inputs():
    return [torch.randint(0, BINS, (N,), dtype=torch.int32)]


def arguments(values: torch.Tensor) -> dict[str, int]:
    return {"bins": BINS}
