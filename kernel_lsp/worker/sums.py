"""The longest sum that a computation makes, seen by watching the operators it runs."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode


class LongestSum(TorchDispatchMode):  # type: ignore[misc]
    """Inside the block every operator is seen; afterwards `terms` is the length of the longest sum in any of them.

    For products of matrices and convolutions the inner length; for operators that normalise or scan, the length of
    what they run over; for others, how many elements of the largest input go into one of the output.
    """

    def __init__(self) -> None:
        super().__init__()
        self.terms = 1

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        tensors = [value for value in args if isinstance(value, torch.Tensor)]
        if tensors:
            name = func.overloadpacket.__name__
            count = _KNOWN.get(name, _ratio)
            try:
                self.terms = max(self.terms, count(args, tensors, result))
            except (IndexError, TypeError, AttributeError):
                self.terms = max(self.terms, _ratio(args, tensors, result))
        return result


def _ratio(args: Any, tensors: list[torch.Tensor], result: Any) -> int:
    first = result[0] if isinstance(result, (tuple, list)) and result else result
    if not isinstance(first, torch.Tensor) or not first.numel():
        return 1
    return int(max(1, max(t.numel() for t in tensors) // first.numel()))


def _inner(args: Any, tensors: list[torch.Tensor], result: Any) -> int:
    """`mm`, `bmm`, `mv`, `dot`: the length that both operands share."""
    return int(tensors[0].shape[-1])


def _inner_of_product(args: Any, tensors: list[torch.Tensor], result: Any) -> int:
    """`addmm(bias, a, b)` and the like."""
    return int(tensors[1].shape[-1])


def _convolution(args: Any, tensors: list[torch.Tensor], result: Any) -> int:
    weight = tensors[1]
    return int(weight.numel() // weight.shape[0])


def _dimension(args: Any, tensors: list[torch.Tensor], result: Any) -> int:
    """`softmax(x, dim)`, `cumsum(x, dim)`."""
    return int(args[0].shape[args[1]]) if args[0].dim() else 1


def _layer_norm(args: Any, tensors: list[torch.Tensor], result: Any) -> int:
    return math.prod(args[1])


def _channels(args: Any, tensors: list[torch.Tensor], result: Any) -> int:
    """Batch norm: everything but the channels is summed."""
    return int(args[0].numel() // max(1, args[0].shape[1]))


def _group_norm(args: Any, tensors: list[torch.Tensor], result: Any) -> int:
    groups = args[6] if len(args) > 6 else 1
    return int(args[0].numel() // max(1, args[0].shape[0] * groups))


def _attention(args: Any, tensors: list[torch.Tensor], result: Any) -> int:
    return int(max(tensors[0].shape[-1], tensors[1].shape[-2]))


_NO_SUM = (
    *("slice", "select", "view", "as_strided", "index_select", "index", "gather", "embedding", "narrow", "split"),
    *("unbind", "max_pool2d_with_indices", "topk", "sort", "argmax", "argmin", "max", "min", "amax", "amin", "nonzero"),
)

_ATTENTIONS = ("flash_attention_for_cpu", "attention_math", "flash_attention", "efficient_attention", "cudnn_attention")

_KNOWN: dict[str, Callable[[Any, list[torch.Tensor], Any], int]] = {
    **dict.fromkeys(("mm", "bmm", "mv", "dot", "vdot"), _inner),
    **dict.fromkeys(("addmm", "baddbmm", "addbmm", "addmv", "_addmm_activation"), _inner_of_product),
    **dict.fromkeys(("convolution", "_convolution", "mkldnn_convolution", "_slow_conv2d_forward"), _convolution),
    **dict.fromkeys(("_softmax", "_log_softmax", "cumsum", "cumprod", "logcumsumexp"), _dimension),
    "native_layer_norm": _layer_norm,
    "native_batch_norm": _channels,
    "_native_batch_norm_legit": _channels,
    "_native_batch_norm_legit_no_training": _channels,
    "cudnn_batch_norm": _channels,
    "native_group_norm": _group_norm,
    **{f"_scaled_dot_product_{how}": _attention for how in _ATTENTIONS},
    **dict.fromkeys(_NO_SUM, lambda args, tensors, result: 1),
}
