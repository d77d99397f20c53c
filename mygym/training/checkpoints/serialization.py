"""Serialization of trees of plain values and arrays: JSON for structure, safetensors for numbers, no pickles."""

from __future__ import annotations

import json
import sys
from collections import deque
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load, save

from mygym.training.files import write_json


def _jax() -> Any:
    """Return the `jax` module if this process has imported it."""
    module = sys.modules.get("jax")
    return module if hasattr(module, "Array") else None


def is_array(value: Any) -> bool:
    """Return whether `value` is a JAX array or a random key."""
    jax = _jax()
    return jax is not None and isinstance(value, jax.Array)


def is_tree(value: Any) -> bool:
    """Return whether `value` is a JAX array, or a pytree that holds a JAX array."""
    return any(map(is_array, leaves(value).values()))


def leaves(tree: Any) -> dict[str, Any]:
    """Return the leaves by name, e.g. `params.Dense_0.kernel`; empty if names are not unique or JAX is not used."""
    jax = _jax()
    if jax is None:
        return {}
    try:
        paths_and_leaves = jax.tree_util.tree_leaves_with_path(tree)
    except (TypeError, ValueError, RecursionError, SystemError):  # unorderable dictionary keys, cyclic lists
        return {}
    named = {_name(path): leaf for path, leaf in paths_and_leaves}
    return named if len(named) == len(paths_and_leaves) else {}


def filled(tree: Any, state: Mapping[str, Any]) -> Any:
    """Return a tree of the structure of `tree` with the leaves of `state`.

    Raises:
        ValueError: Names, shapes or number types of the leaves differ from the leaves of `tree`.
    """
    current = leaves(tree)
    if current.keys() != state.keys():
        missing, unknown = sorted(current.keys() - state.keys()), sorted(state.keys() - current.keys())
        raise ValueError(f"missing: {', '.join(missing) or 'nothing'}; unknown: {', '.join(unknown) or 'nothing'}")
    jax = _jax()
    return jax.tree_util.tree_map_with_path(lambda path, leaf: _checked(_name(path), leaf, state[_name(path)]), tree)


def to_tensor(array: Any) -> torch.Tensor:
    """Return a bit-identical copy of a JAX array or a number; for a random key, its words."""
    jax = _jax()
    if jax.dtypes.issubdtype(getattr(array, "dtype", None), jax.dtypes.prng_key):
        array = jax.random.key_data(array)
    copied = np.array(array, order="C")
    if copied.dtype == jax.dtypes.bfloat16:  # numpy lacks this type
        return torch.from_numpy(copied.view(np.uint16)).view(torch.bfloat16)
    return torch.from_numpy(copied)


def to_array(tensor: torch.Tensor, weak: bool = False, key: str | None = None) -> Any:
    """Return the JAX array of a result of `to_tensor`.

    Args:
        tensor: A tensor on the CPU.
        weak: Whether the array is weakly typed, as a Python number.
        key: Random generator, if the array is a random key.

    Raises:
        ImportError: JAX is not installed.
        ValueError: JAX is not configured for this number type.
    """
    import jax

    if tensor.dtype == torch.bfloat16:
        return jax.numpy.asarray(tensor.view(torch.uint16).numpy().view(jax.dtypes.bfloat16))
    numbers = tensor.numpy().copy()
    array = jax.numpy.asarray(numbers, jax.dtypes.canonicalize_dtype(numbers.dtype))
    if numbers.shape and array.dtype != numbers.dtype:
        raise ValueError(f"JAX is not configured to compute with {numbers.dtype}")
    if key is not None:
        return jax.random.wrap_key_data(array, impl=key)
    number = jax.numpy.asarray(tensor.item()) if weak and not tensor.shape else array
    return number if number.dtype == array.dtype else array


def array_properties(array: Any) -> dict[str, Any]:
    """Return the further arguments of `to_array` for an array."""
    jax = _jax()
    if jax.dtypes.issubdtype(array.dtype, jax.dtypes.prng_key):
        return {"key": str(jax.random.key_impl(array))}
    return {"weak": True} if array.weak_type and not array.shape else {}


def _name(path: Any) -> str:
    """Return the name of a JAX key path, e.g. `params.Dense_0.kernel`."""
    names = (getattr(key, "name", getattr(key, "key", getattr(key, "idx", None))) for key in path)
    return ".".join(map(str, names))


def _checked(name: str, current: Any, new: Any) -> Any:
    """Return `new`; raise `ValueError` if its type or shape differs from that of `current`."""
    if _type_and_shape(current) != _type_and_shape(new):
        raise ValueError(f"{name} is {_type_and_shape(new)}, not {_type_and_shape(current)}")
    return new


def _type_and_shape(value: Any) -> str:
    """Return type and shape; for scalars only the kind of number, because training turns Python numbers into arrays."""
    if not (is_array(value) or isinstance(value, np.ndarray | np.generic | bool | int | float)):
        return type(value).__name__
    shape, dtype = np.shape(value), getattr(value, "dtype", None) or np.result_type(value)
    name = {"b": "bool", "i": "int", "u": "uint", "f": "float"}.get(getattr(dtype, "kind", ""), str(dtype))
    return f"{dtype}{list(shape)}" if shape else name


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
    """Return the tree of the files of `to_files`; raise `ValueError` if they are damaged or of another origin."""
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
    is_tensor = isinstance(value, torch.Tensor) and value.layout is torch.strided and not value.is_meta
    if is_tensor and value.dtype in _TORCH:
        tensors[name] = value.detach().cpu().clone(memory_format=torch.contiguous_format)
        return {"$tensor": name}
    if (type(value) is np.ndarray or isinstance(value, np.generic)) and value.dtype in _NUMPY:
        tensors[name] = torch.from_numpy(np.array(value, order="C"))
        return {"$scalar" if isinstance(value, np.generic) else "$array": name}
    if is_array(value):
        tensors[name] = to_tensor(value)
        return {"$jax": name, **array_properties(value)}
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
        return to_array(tensors[content], node.get("weak", False), node.get("key"))
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


RECEIPTS = ".receipts.json"


def record(file: Path) -> None:
    """Write the receipt of a file that this process has just written."""
    receipts = _receipts(file.parent)
    receipts[file.name] = _identity(file)
    write_json(file.parent / RECEIPTS, receipts)


def has_valid_receipt(file: Path) -> bool:
    """Return whether `file` is unchanged since its receipt was written."""
    return not file.is_symlink() and _receipts(file.parent).get(file.name) == _identity(file)


def _identity(file: Path) -> str:
    status = file.stat()
    return f"{status.st_dev} {status.st_ino} {status.st_ctime_ns} {status.st_size}"


def _receipts(folder: Path) -> dict[str, str]:
    path = folder / RECEIPTS
    if not path.is_file():  # reading a pipe would block
        return {}
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return content if isinstance(content, dict) else {}
