"""mygym: train robot arms in PyBullet with your own algorithm or a built-in one.

`mygym.train(config)`, `mygym.evaluate(run)`, `mygym.make_env(config_or_run)`, `mygym.load(run)`,
`mygym.search(run)`, `mygym.demonstrate(config)`, `mygym.load_demonstrations(dataset)` and `mygym.replay(dataset)` are
the command line's verbs; importing the package registers the Gymnasium environments and imports neither torch nor
pybullet.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from mygym.registry import user_files

__version__ = "0.1.0"

__all__ = ["demonstrate", "evaluate", "load", "load_demonstrations", "make_env", "replay", "search", "train"]

_MODULES = {**dict.fromkeys(("demonstrate", "load_demonstrations", "replay"), "demonstrating"), "search": "searching"}
"""Where those of `__all__` are that are not in `mygym.api`."""

user_files.install()


def __getattr__(name: str) -> Any:
    if name in __all__:
        return getattr(import_module(f"mygym.{_MODULES.get(name, 'api')}"), name)
    raise AttributeError(f"module 'mygym' has no attribute {name!r}")


def _register_environments() -> None:
    from mygym.envs.ids import register_ids

    register_ids()


_register_environments()
