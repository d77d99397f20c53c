"""Config of a run: `schema` (its keys), `layers` (origins of its values), `hyperparameters`.

`loading` reads files and flags, `plain` defines the values that they may hold. `schedules` are hyperparameters that
change during training, `schedulable` finds the hyperparameters that may change.
"""

from mygym.config.layers import Layer, Resolved, config_hash, merge_configs, refuse_defaults, resolve
from mygym.config.loading import load_file, parse_overrides
from mygym.config.schema import RunConfig
from mygym.nested import merged

__all__ = [
    "Layer",
    "Resolved",
    "RunConfig",
    "config_hash",
    "load_file",
    "merge_configs",
    "merged",
    "parse_overrides",
    "refuse_defaults",
    "resolve",
]
