"""Where networks compute: the device and the threads of a framework."""

from __future__ import annotations

import os

from mygym.errors import ConfigError, bad_value

_ABSENT = (RuntimeError, AssertionError, NotImplementedError, ImportError, IndexError)
"""What a framework raises for a device that it has not."""

_XLA_THREADS = "PJRT_NPROC"
"""Read by XLA when JAX computes for the first time in a process, and never again."""


def use(framework: str, device: str, threads: int) -> None:
    """Let a framework compute on `device` with so many threads, of which JAX keeps the number it was first told.

    Raises:
        ConfigError: The device is not there.
    """
    import torch

    torch.set_num_threads(threads)  # replay buffers are torch's whatever the framework
    try:
        if framework == "jax":
            _use_in_jax(device, threads)
        else:
            torch.empty(0, device=device)
    except _ABSENT as error:
        why = " ".join(str(error).split())
        raise ConfigError(bad_value("device", device, f"cpu, or cuda where {framework} has it", why)) from error


def or_cpu(framework: str, device: str, threads: int) -> str:
    """`device`, which is in use then; `"cpu"` where it is not there."""
    try:
        use(framework, device, threads)
    except ConfigError:
        return "cpu"
    return device


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
