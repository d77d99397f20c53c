"""The registries of this process: `registry(kind)` for every kind of component."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator

from mygym.errors import UnknownNameError, bad_value
from mygym.registry.builtins import KINDS
from mygym.registry.components import Registry
from mygym.registry.discovery import Scanner
from mygym.registry.user_files import PACKAGE, user_modules

_scanner = Scanner()

REGISTRIES: dict[str, Registry] = {kind: Registry(kind, _scanner) for kind in KINDS}
"""Kind → registry."""


def registry(kind: str) -> Registry:
    """Return the registry of a kind.

    Args:
        kind: `robot`, `task`, `algorithm` or another kind; `mygym list` has them all.

    Raises:
        UnknownNameError: The kind does not exist.
    """
    if kind not in REGISTRIES:
        raise UnknownNameError(bad_value("kind", kind, sorted(REGISTRIES), "is not a kind of component"))
    return REGISTRIES[kind]


def refresh() -> None:
    """Scan the user's folders again, e.g. after a file was added, changed or removed."""
    _scanner.scan()


@contextlib.contextmanager
def isolated() -> Iterator[None]:
    """Context manager for tests that undoes every registration, scan and import of user files in its block."""
    registries = {kind: components.snapshot() for kind, components in REGISTRIES.items()}
    scanner, modules = _scanner.snapshot(), len(sys.modules)
    try:
        yield
    finally:
        for kind, state in registries.items():
            REGISTRIES[kind].restore(state)
        user_modules.forget_second_names()
        _scanner.restore(scanner)
        if len(sys.modules) != modules:  # a search through thousands of names takes longer than most tests
            for module in [module for module in sys.modules if module.startswith(f"{PACKAGE}.")]:
                del sys.modules[module]
