"""mygym: train robot arms in PyBullet with built-in or custom algorithms.

The command line's verbs: `mygym.train(config)`, `mygym.evaluate(run)`, `mygym.make_env(config_or_run)`,
`mygym.load(run)`, `mygym.search(run)`, `mygym.demonstrate(config)`, `mygym.load_demonstrations(dataset)` and
`mygym.replay(dataset)`. Importing the package registers the Gymnasium environments; it imports neither torch nor
pybullet.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from mygym.registry import user_files

__version__ = "0.1.0"

__all__ = ["demonstrate", "evaluate", "load", "load_demonstrations", "make_env", "replay", "search", "train"]

user_files.install()


def __getattr__(name: str) -> Any:
    if name in __all__:
        return getattr(import_module("mygym.api"), name)
    raise AttributeError(f"module 'mygym' has no attribute {name!r}")


def _register_environments() -> None:
    from mygym.envs.ids import register_ids

    register_ids()


_register_environments()
