"""mygym: train robot arms in PyBullet with built-in or custom algorithms.

The functions of the package are the verbs of the command line: `mygym.train(config)`, `mygym.evaluate(run)`,
`mygym.make_env(config_or_run)`, `mygym.load(run)`, `mygym.export(run)`, `mygym.search(run)`, `mygym.network_of(run)`,
`mygym.demonstrate(config)`, `mygym.load_demonstrations(dataset)`, `mygym.replay(dataset)` and `mygym.results(folder)`.
Importing the package registers the Gymnasium environments; it imports neither torch nor pybullet and does not look into
the current folder.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from mygym.python_version import check_python

check_python()  # before modules that other versions cannot import

from mygym.cli.start import interruptible_import  # noqa: E402

with interruptible_import():
    from mygym import moved
    from mygym.envs.ids import register_ids
    from mygym.registry.user_files import user_modules

    moved.install()
    user_modules.install()
    register_ids()

__version__ = "0.2.0"

__all__ = [
    *("demonstrate", "evaluate", "export", "load", "load_demonstrations", "make_env", "measure_detector"),
    *("network_of", "record_images", "replay", "results", "search", "train", "train_detector", "train_encoder"),
]


def __getattr__(name: str) -> Any:
    if name in __all__:
        return getattr(import_module("mygym.api"), name)
    raise AttributeError(f"module 'mygym' has no attribute {name!r}")
