"""Array-API namespace of torch: that of `array_api_compat`, without copies of plain numbers to the device.

`array_api_compat` turns a number that is an argument of `maximum` or `minimum` into a tensor, and assigns NaN within
`sign`. On a GPU these are copies from the host, for which the step waits, and which a CUDA graph cannot contain.
"""

from __future__ import annotations

from typing import Any

import array_api_compat.torch
import torch

sign = torch.sign


def maximum(x1: Any, x2: Any) -> torch.Tensor:
    """Return the larger of two tensors, or of a tensor and a number."""
    if isinstance(x1, int | float):
        x1, x2 = x2, x1
    return torch.clamp(x1, min=x2) if isinstance(x2, int | float) else array_api_compat.torch.maximum(x1, x2)


def minimum(x1: Any, x2: Any) -> torch.Tensor:
    """Return the smaller of two tensors, or of a tensor and a number."""
    if isinstance(x1, int | float):
        x1, x2 = x2, x1
    return torch.clamp(x1, max=x2) if isinstance(x2, int | float) else array_api_compat.torch.minimum(x1, x2)


def __getattr__(name: str) -> Any:
    return getattr(array_api_compat.torch, name)
