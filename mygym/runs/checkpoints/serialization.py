"""Serialization of trees of plain values and arrays: JSON for structure, safetensors for numbers, no pickles."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load, save

from mygym.runs.checkpoints import pytrees

STRUCTURE = "state.json"
TENSORS = "tensors.safetensors"
MAX_BITS = 10_000
"""Size of the largest whole number; Python refuses to print numbers of 14,300 bits, also into a `model.zip`."""

_TORCH = frozenset(
    {
        *(torch.bool, torch.uint8, torch.uint16, torch.uint32, torch.uint64, torch.int8, torch.int16, torch.int32),
        *(torch.int64, torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.complex64),
    }
)
_NUMPY = frozenset(np.dtype(name) for name in ("?", *(f"{kind}{size}" for kind in "iu" for size in "1248"), *"efd"))
"""Number types that are restored unchanged; numpy types in the machine's byte order."""

_READ_ERRORS = (
    *(ValueError, LookupError, TypeError, AttributeError, ArithmeticError),
    *(AssertionError, RuntimeError, SafetensorError, ImportError),
)
"""Exceptions that reading damaged or third-party files may raise."""


def to_files(tree: Any) -> dict[str, bytes]:
    """Return the content of the files `state.json` and `tensors.safetensors` for a tree.

    A tree consists of None, booleans, numbers, strings, lists, tuples, deques, dictionaries, numpy scalars and arrays,
    JAX arrays and torch tensors. It is restored with the same types, tensors without gradients and on the CPU.

    Raises:
        TypeError: The tree contains another type (the message gives its position) or itself.
    """
    tensors: dict[str, torch.Tensor] = {}
    try:
        structure = json.dumps(_encode(tree, "", tensors)).encode()
    except RecursionError:
        raise TypeError("nested too deep, or part of itself") from None
    return {STRUCTURE: structure, TENSORS: save(tensors)}


def from_files(files: Mapping[str, bytes]) -> Any:
    """Return the tree of the files of `to_files`.

    Raises:
        ValueError: The files are damaged, or not written by `to_files`.
    """
    try:
        return _decode(json.loads(files[STRUCTURE]), load(files[TENSORS]))
    except _READ_ERRORS as error:
        raise ValueError(f"not a saved state: {type(error).__name__}: {error}") from None


def can_be_saved(value: Any) -> bool:
    """Return whether `value` can be part of a tree."""
    try:
        _encode(value, "", {})
    except (TypeError, RecursionError):
        return False
    return True


def _encode(value: Any, path: str, tensors: dict[str, torch.Tensor]) -> Any:
    """Encode JSON types as themselves, and every other type as an object with one key that begins with `$`."""

    def inner(items: Any) -> list[Any]:
        return [_encode(item, f"{path}.{index}", tensors) for index, item in enumerate(items)]

    if value is None or isinstance(value, str) or type(value) is bool:
        return value
    if type(value) is int:  # Python refuses to convert integers of thousands of digits
        if value.bit_length() > MAX_BITS:
            raise TypeError(f"{path.removeprefix('.') or 'value'} is a number of more than {MAX_BITS} bits")
        return value if value.bit_length() <= 64 else {"$int": hex(value)}
    if type(value) is float:
        return value if np.isfinite(value) else {"$float": str(value)}
    if isinstance(value, list):
        return inner(value)
    if isinstance(value, tuple):
        return {"$tuple": inner(value)}
    if isinstance(value, deque):
        return {"$deque": inner(value), "maxlen": value.maxlen}
    if isinstance(value, Mapping):
        if all(isinstance(key, str) and not key.startswith("$") for key in value):
            return {key: _encode(item, f"{path}.{key}", tensors) for key, item in value.items()}
        return {"$pairs": inner(tuple(value.items()))}
    name = f"{len(tensors)}{path}".encode("ascii", "backslashreplace").decode()
    if (
        isinstance(value, torch.Tensor)
        and value.dtype in _TORCH
        and value.layout is torch.strided
        and not value.is_meta
    ):
        tensors[name] = value.detach().cpu().clone(memory_format=torch.contiguous_format)
        return {"$tensor": name}
    if (type(value) is np.ndarray or isinstance(value, np.generic)) and value.dtype in _NUMPY:
        tensors[name] = torch.from_numpy(np.array(value, order="C"))
        return {"$scalar" if isinstance(value, np.generic) else "$array": name}
    if pytrees.is_array(value):
        tensors[name] = pytrees.to_tensor(value)
        return {"$jax": name, **pytrees.array_properties(value)}
    position, shown = path.removeprefix(".") or "value", " ".join(repr(value).split())[:100]
    kind = f"{type(value).__name__}{f' of {value.dtype}' if hasattr(value, 'dtype') else ''}"
    raise TypeError(f"{position} is {shown}, a {kind}, which is neither plain data nor an array that can be saved")


def _decode(node: Any, tensors: Mapping[str, torch.Tensor]) -> Any:
    if isinstance(node, list):
        return [_decode(item, tensors) for item in node]
    if not isinstance(node, dict):
        return node
    kind = next((key for key in node if key.startswith("$")), None)
    if kind is None:
        return {key: _decode(item, tensors) for key, item in node.items()}
    content = node[kind]
    if kind in ("$tensor", "$array", "$scalar"):
        tensor = tensors[content]
        return tensor if kind == "$tensor" else tensor.numpy() if kind == "$array" else tensor.numpy()[()]
    if kind == "$jax":
        return pytrees.to_array(tensors[content], node.get("weak", False), node.get("key"))
    if kind == "$float":
        return float(content)
    if kind == "$int":
        number = int(content, 16)
        if number.bit_length() > MAX_BITS:
            raise ValueError(f"a number of more than {MAX_BITS} bits")
        return number
    if kind == "$tuple":
        return tuple(_decode(content, tensors))
    if kind == "$deque":
        return deque(_decode(content, tensors), maxlen=node["maxlen"])
    if kind == "$pairs":
        return dict(_decode(content, tensors))
    raise ValueError(f"unknown key {kind}")
