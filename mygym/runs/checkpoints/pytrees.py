"""JAX's arrays and trees of them (flax's train states, optax's optimisers), for a process that may have no JAX.

A tree's state is a dictionary of its leaves by name. It is loaded into a tree of the same structure, which the run has
built already: classes and functions are never read from a file.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch


def _jax() -> Any:
    """The module, if this process uses it."""
    module = sys.modules.get("jax")
    return module if hasattr(module, "Array") else None


def is_array(value: Any) -> bool:
    """Whether `value` is an array of JAX's, a key for random numbers included."""
    jax = _jax()
    return jax is not None and isinstance(value, jax.Array)


def is_tree(value: Any) -> bool:
    """Whether `value` is an array of JAX's or something that holds some as JAX sees it."""
    return any(map(is_array, leaves(value).values()))


def leaves(tree: Any) -> dict[str, Any]:
    """Leaves by name, such as `params.Dense_0.kernel`; nothing where JAX cannot tell them apart or is not used."""
    jax = _jax()
    if jax is None:
        return {}
    try:
        found = jax.tree_util.tree_leaves_with_path(tree)
    except (TypeError, ValueError, RecursionError, SystemError):  # a dictionary with keys without order, endless lists
        return {}
    named = {_name(path): leaf for path, leaf in found}
    return named if len(named) == len(found) else {}


def filled(tree: Any, state: Mapping[str, Any]) -> Any:
    """A tree of the structure of `tree` with the leaves that `state` has for it.

    Raises:
        ValueError: Names, shapes or types of numbers are not those of `tree`.
    """
    own = leaves(tree)
    if own.keys() != state.keys():
        missing, unknown = sorted(own.keys() - state.keys()), sorted(state.keys() - own.keys())
        raise ValueError(f"missing: {', '.join(missing) or 'nothing'}; unknown: {', '.join(unknown) or 'nothing'}")
    jax = _jax()
    return jax.tree_util.tree_map_with_path(lambda path, leaf: _fitting(_name(path), leaf, state[_name(path)]), tree)


def to_tensor(array: Any) -> torch.Tensor:
    """A copy of an array of JAX's, or of a number, bit by bit; of a key for random numbers its words."""
    jax = _jax()
    if jax.dtypes.issubdtype(getattr(array, "dtype", None), jax.dtypes.prng_key):
        array = jax.random.key_data(array)
    copied = np.array(array, order="C")
    if copied.dtype == jax.dtypes.bfloat16:  # no type of numpy's
        return torch.from_numpy(copied.view(np.uint16)).view(torch.bfloat16)
    return torch.from_numpy(copied)


def to_array(tensor: torch.Tensor, weak: bool = False, key: str | None = None) -> Any:
    """The inverse of `to_tensor`.

    Args:
        tensor: On the CPU.
        weak: It yields to the type of what it is combined with, as a number of Python's does.
        key: The random generator whose key it is.

    Raises:
        ImportError: There is no JAX here.
        ValueError: JAX does not compute with such numbers here.
    """
    import jax

    if tensor.dtype == torch.bfloat16:
        return jax.numpy.asarray(tensor.view(torch.uint16).numpy().view(jax.dtypes.bfloat16))
    numbers = tensor.numpy().copy()
    array = jax.numpy.asarray(numbers, jax.dtypes.canonicalize_dtype(numbers.dtype))
    if numbers.shape and array.dtype != numbers.dtype:
        raise ValueError(f"{numbers.dtype} are not what JAX computes with unless told so")
    if key is not None:
        return jax.random.wrap_key_data(array, impl=key)
    number = jax.numpy.asarray(tensor.item()) if weak and not tensor.shape else array
    return number if number.dtype == array.dtype else array


def about(array: Any) -> dict[str, Any]:
    """What `to_array` wants to know besides the numbers."""
    jax = _jax()
    if jax.dtypes.issubdtype(array.dtype, jax.dtypes.prng_key):
        return {"key": str(jax.random.key_impl(array))}
    return {"weak": True} if array.weak_type and not array.shape else {}


def _name(path: Any) -> str:
    """`params.Dense_0.kernel` for the way that JAX describes."""
    parts = (getattr(step, "name", getattr(step, "key", getattr(step, "idx", None))) for step in path)
    return ".".join(map(str, parts))


def _fitting(name: str, own: Any, new: Any) -> Any:
    """`new`, if it can be where `own` is.

    Raises:
        ValueError: It is of another kind or shape.
    """
    if _kind(own) != _kind(new):
        raise ValueError(f"{name} is {_kind(new)}, not {_kind(own)}")
    return new


def _kind(value: Any) -> str:
    """Type and shape; of single numbers less, because those of Python's become arrays when they are trained."""
    if not (is_array(value) or isinstance(value, np.ndarray | np.generic | bool | int | float)):
        return type(value).__name__
    shape, dtype = np.shape(value), getattr(value, "dtype", None) or np.result_type(value)
    name = {"b": "bool", "i": "int", "u": "uint", "f": "float"}.get(getattr(dtype, "kind", ""), str(dtype))
    return f"{dtype}{list(shape)}" if shape else name
