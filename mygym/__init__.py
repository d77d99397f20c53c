"""mygym: train robot arms in PyBullet with your own algorithm or a built-in one.

`mygym.train(config)`, `mygym.evaluate(run)`, `mygym.make_env(config_or_run)` and `mygym.load(run)` are the command
line's verbs; importing the package registers the Gymnasium environments and imports neither torch nor pybullet.
"""

from __future__ import annotations

from typing import Any

from mygym import plugins

__version__ = "0.1.0"

__all__ = ["evaluate", "load", "make_env", "train"]

plugins.install()


def __getattr__(name: str) -> Any:
    if name in __all__:
        from mygym import training

        return getattr(training, name)
    raise AttributeError(f"module 'mygym' has no attribute {name!r}")


def _register_environments() -> None:
    from mygym.envs.ids import register_ids

    register_ids()


_register_environments()
