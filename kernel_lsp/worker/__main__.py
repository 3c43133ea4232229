"""`python -m kernel_lsp.worker --fd N`: serve the server at the other end of the inherited socket."""

from __future__ import annotations

import argparse
import asyncio
import os
import platform
import socket
import sys

from kernel_lsp import wire
from kernel_lsp.domain import Problem
from kernel_lsp.messages import Failed, Hello


def main() -> None:
    parser = argparse.ArgumentParser(prog="kernel_lsp.worker", description=__doc__)
    parser.add_argument("--fd", type=int, required=True, help="descriptor of the socket to the server")
    connection = socket.socket(fileno=parser.parse_args().fd)
    connection.set_inheritable(False)
    # A look for a GPU that starts CUDA in this process would keep it from every child.
    os.environ["PYTORCH_NVML_BASED_CUDA_CHECK"] = "1"
    # Fresh memory is poisoned in the allocator's cache; without one it would come from the driver as it is.
    os.environ.pop("PYTORCH_NO_CUDA_MEMORY_CACHING", None)
    try:
        import torch
    except Exception as error:
        connection.sendall(wire.frame(Failed(job=0, problem=_no_torch(error))))
        return
    from kernel_lsp.worker.nvml import first_gpu
    from kernel_lsp.worker.serve import serve

    hello = Hello(
        python=platform.python_version(),
        torch=str(torch.__version__),
        threads=len(os.sched_getaffinity(0)),
        cuda=first_gpu() if torch.version.cuda else None,
    )
    asyncio.run(serve(connection, hello))
    sys.stderr.flush()
    # Taking torch apart module by module needs over a second, in which somebody waits for us to end.
    os._exit(0)


def _no_torch(error: Exception) -> Problem:
    missing = isinstance(error, ModuleNotFoundError) and error.name == "torch"
    return Problem(
        code="no-torch",
        message=f"{sys.executable} has no torch" if missing else f"torch cannot be imported: {error}",
        hint=f"run `{sys.executable} -m pip install torch numpy`, or set `python` in the settings to one that has it",
    )


if __name__ == "__main__":
    main()
