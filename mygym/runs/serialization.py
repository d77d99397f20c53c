"""Trees of plain values and arrays ↔ files: JSON for the structure, safetensors for the numbers, no pickles."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from safetensors.torch import load, save

STRUCTURE = "state.json"
TENSORS = "tensors.safetensors"


def to_files(tree: Any) -> dict[str, bytes]:
    """Content of the files `state.json` and `tensors.safetensors` that hold `tree`.

    A tree is made of None, booleans, numbers, strings, lists, tuples, deques, dictionaries, numpy scalars, numpy arrays
    and torch tensors; it comes back with the same types.

    Raises:
        TypeError: Something else is in it; the message tells where.
    """
    tensors: dict[str, torch.Tensor] = {}
    structure = _encode(tree, "", tensors)
    return {STRUCTURE: json.dumps(structure).encode(), TENSORS: save(tensors)}


def from_files(files: Mapping[str, bytes]) -> Any:
    """The inverse of `to_files`.

    Raises:
        ValueError, LookupError, TypeError, RecursionError, SafetensorError: The files are not those of `to_files`.
    """
    return _decode(json.loads(files[STRUCTURE]), load(files[TENSORS]))


def is_plain(value: Any) -> bool:
    """Whether `value` can be part of a tree."""
    try:
        _encode(value, "", {})
    except (TypeError, RecursionError):
        return False
    return True


def _encode(value: Any, path: str, tensors: dict[str, torch.Tensor]) -> Any:
    """What JSON has is itself; everything else is an object with one key that begins with `$`."""

    def inner(items: Any) -> list[Any]:
        return [_encode(item, f"{path}.{index}", tensors) for index, item in enumerate(items)]

    if value is None or isinstance(value, str) or type(value) in (bool, int):
        return value
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
    name = path.lstrip(".") or "value"
    if name in tensors:  # keys may have dots in them
        name = f"{name}#{len(tensors)}"
    if isinstance(value, torch.Tensor):
        tensors[name] = value.detach().cpu().clone(memory_format=torch.contiguous_format)
        return {"$tensor": name}
    if isinstance(value, np.ndarray | np.generic) and value.dtype.kind in "biuf":
        tensors[name] = torch.from_numpy(np.array(value, order="C"))
        return {"$scalar" if isinstance(value, np.generic) else "$array": name}
    raise TypeError(f"{name} is {value!r:.100}, a {type(value).__name__}, which is neither plain data nor an array")


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
    if kind == "$float":
        return float(content)
    if kind == "$tuple":
        return tuple(_decode(content, tensors))
    if kind == "$deque":
        return deque(_decode(content, tensors), maxlen=node["maxlen"])
    if kind == "$pairs":
        return dict(_decode(content, tensors))
    raise ValueError(f"{kind} is not known")
