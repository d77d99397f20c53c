"""Devices and threads of the frameworks."""

from __future__ import annotations

import inspect
import os
import sys
from functools import wraps
from typing import Any

from mygym.errors import ConfigError, bad_value

_MISSING_DEVICE = (RuntimeError, AssertionError, NotImplementedError, ImportError, IndexError)
"""Exceptions that a framework raises for a missing device."""

_XLA_THREADS = "PJRT_NPROC"
"""Environment variable that XLA reads only once, at JAX's first computation in a process."""


def use(framework: str, device: str, threads: int) -> None:
    """Select the device and the number of threads of a framework; JAX keeps the number of its first call.

    Raises:
        ConfigError: The device is missing.
    """
    import torch

    torch.set_num_threads(threads)  # replay buffers use torch in every framework
    _optimize_without_dynamo()
    try:
        if framework == "jax":
            _use_in_jax(device, threads)
        else:
            torch.empty(0, device=device)
    except _MISSING_DEVICE as error:
        why = " ".join(str(error).split())
        raise ConfigError(bad_value("device", device, f"cpu, or cuda where {framework} has it", why)) from error


def or_cpu(framework: str, device: str, threads: int) -> str:
    """Use `device` and return it; return `"cpu"` if the device is missing."""
    try:
        use(framework, device, threads)
    except ConfigError:
        return "cpu"
    return device


def _optimize_without_dynamo() -> None:
    """Let optimisers work without `torch._dynamo`, torch's compiler, whose import takes a second.

    torch wraps these methods to exclude them from compilation. At its first call a wrapper imports the compiler and
    stores the excluded method in this attribute, unless the attribute exists. The wrapper of `step` imports it too,
    to break the graph of a compilation. `torch.compile` works as before. A version of torch with other wrappers imports
    the compiler again.
    """
    import torch
    from torch.optim import Optimizer

    for method in (Optimizer.add_param_group, Optimizer.zero_grad, Optimizer.state_dict, Optimizer.load_state_dict):
        function = inspect.unwrap(method)
        if not hasattr(function, "__dynamo_disable"):
            setattr(function, "__dynamo_disable", function)
    for kind in vars(torch.optim).values():
        step: Any = vars(kind).get("step") if isinstance(kind, type) else None
        if getattr(step, "__code__", None) is not None and step.__code__.co_name == "_use_grad":
            kind.step = _step_without_dynamo(step)


def _step_without_dynamo(wrapper: Any) -> Any:
    """Return torch's wrapper of an optimiser's `step`, without its import unless the compiler is in use."""
    import torch

    @wraps(wrapper)
    def step(self: Any, *args: Any, **kwargs: Any) -> Any:
        if "torch._dynamo" in sys.modules:
            return wrapper(self, *args, **kwargs)
        with torch.set_grad_enabled(self.defaults["differentiable"]):
            return wrapper.__wrapped__(self, *args, **kwargs)

    return step


def _use_in_jax(device: str, threads: int) -> None:
    import jax

    platform, _, number = device.partition(":")
    before = os.environ.get(_XLA_THREADS)
    os.environ[_XLA_THREADS] = before or str(threads)
    try:
        jax.config.update("jax_default_device", jax.devices(platform)[int(number or 0)])  # type: ignore[no-untyped-call]
    finally:
        if before is None:
            del os.environ[_XLA_THREADS]
