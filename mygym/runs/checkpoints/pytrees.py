"""JAX arrays and trees of JAX arrays (flax train states, optax optimisers), in processes with or without JAX.

The state of a tree is a dictionary of its leaves by name. It is loaded into a tree of the same structure, which the run
has already built: classes and functions are never read from a file.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch


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
    """Return `new` after a comparison with `current`.

    Raises:
        ValueError: Type or shape differs.
    """
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
