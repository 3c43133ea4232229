"""Call every function of api.cpp and print what came out: `compare.py torch_library|python_module NAME PATH`."""

import importlib.util
import json
import sys

import torch


def load(kind, name, path):
    if kind == "torch_library":
        torch.ops.load_library(path)
        return getattr(torch.ops, name)
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def plain(value):
    if isinstance(value, torch.Tensor):
        layout = [str(value.dtype), list(value.shape), list(value.stride())]
        return [*layout, value.double().flatten().tolist() if value.is_floating_point() else value.flatten().tolist()]
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    return value


def outcome(function, *arguments, **named):
    try:
        result = plain(function(*arguments, **named))
    except Exception as error:
        # torch adds where it was raised; the first line is the message.
        return [type(error).__name__, str(error).splitlines()[0]]
    return [result, [plain(argument) for argument in arguments if isinstance(argument, torch.Tensor)]]


api = load(*sys.argv[1:])
torch.manual_seed(5)
x, y = torch.randn(4, 6), torch.randn(4, 6)
cases = {
    "scale": [
        (x,),
        (x, 3.5),
        (x.double(), -1.0),
        (x.t(),),
        (x.int(),),
        (torch.randn(64, 7), 2.0),
        (torch.zeros(0, 3),),
    ],
    "half_too": [(x,), (x.half(),), (x.bfloat16(),), (x.t(),), (x.long(),)],
    "integers": [(torch.arange(12).view(3, 4),), (torch.arange(12).view(3, 4).t().int(),), (x,)],
    "all_types": [(x,), (torch.arange(5),), (torch.ones(3, dtype=torch.bool),), (x.half(),)],
    "in_place": [(x.clone(), y), (x.clone(), y, 2.0), (x.double(), y)],
    "out_argument": [(x, torch.empty(4, 6)), (x, torch.empty(3, 6)), (x.t(), torch.empty(6, 4))],
    "views": [(x,), (torch.arange(12).view(3, 4),)],
    "several": [(x,), (x.double(),)],
    "arithmetic": [(x, y), (x.double(), y.double())],
    "factories": [(x, 3), (x.long(), 2)],
    "optional_bias": [(x,), (x, y), (x, None, 3), (x, y, 2)],
    "gather": [([x, y], [0, 1], "sum", False), ([x, y], [1, 1], "difference", True), ([x], [], "", False)],
    "reduce": [(torch.arange(1000.0).double(),), (torch.zeros(0).double(),), (torch.ones(3).double(),)],
    "describe": [(x,), (x.t(),), (x[1:, 2:],), (x.half(),), (torch.ones(2, dtype=torch.bool),)],
    "fails": [(x, how) for how in range(9)],
    "suppress": [(x.abs().cumsum(1)[:, :4].contiguous(), y[:, 0].contiguous(), 0.3), (x[:0], y[:0, 0], 0.5)],
    "with_numbers": [(x,), (x.double(),), (x.half(),), (torch.arange(12).view(3, 4),), (x > 0,), (x.byte(),)],
    "lambda": [(x, 3)],
}
named = [("scale", {"x": x, "factor": 0.5}), ("in_place", {"x": x.clone(), "y": y, "alpha": 1.0})]
results = {name: [outcome(getattr(api, name), *arguments) for arguments in calls] for name, calls in cases.items()}
results["named"] = [outcome(getattr(api, name), **arguments) for name, arguments in named]
print(json.dumps(results))
