"""Which GPU children will use, asked of NVML: the warm parent must not start CUDA, for no child could then use it."""

from __future__ import annotations

import ctypes
import os

LIBRARY = "libnvidia-ml.so.1"
_NAME_BYTES = 96


def first_gpu() -> str | None:
    """Name of the first GPU that `CUDA_VISIBLE_DEVICES` leaves: `NVIDIA H200`; None without a GPU or its driver."""
    chosen = first_visible(os.environ.get("CUDA_VISIBLE_DEVICES"))
    if chosen is None:
        return None
    try:
        nvml = ctypes.CDLL(LIBRARY)
        if nvml.nvmlInit_v2() != 0:
            return None
        try:
            return _name(nvml, chosen)
        finally:
            nvml.nvmlShutdown()
    except (OSError, AttributeError):
        return None


def first_visible(visible: str | None) -> str | None:
    """The first device that the variable names, an index or an identifier; None where it hides all."""
    if visible is None:
        return "0"
    first = visible.split(",")[0].strip()
    # CUDA stops at the first entry that names no device.
    return None if not first or first.startswith("-") else first


def _name(nvml: ctypes.CDLL, chosen: str) -> str | None:
    device = ctypes.c_void_p()
    if chosen.isdigit():
        found = nvml.nvmlDeviceGetHandleByIndex_v2(ctypes.c_uint(int(chosen)), ctypes.byref(device))
    else:
        found = nvml.nvmlDeviceGetHandleByUUID(chosen.encode(), ctypes.byref(device))
    if found != 0:
        return None
    name = ctypes.create_string_buffer(_NAME_BYTES)
    return name.value.decode(errors="replace") if nvml.nvmlDeviceGetName(device, name, _NAME_BYTES) == 0 else None
