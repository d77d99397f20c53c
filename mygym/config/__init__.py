"""Config of a run: `schema` (what may be set), `layers` (who decides), `hyperparameters`.

`loading` reads files and flags, `plain` says what they may hold. `schedules` are hyperparameters that change while
training, `schedulable` says which may.
"""

from mygym.config.layers import Layer, Resolved, config_hash, refuse_defaults, resolve
from mygym.config.loading import load_file, merged, parse_overrides
from mygym.config.schema import RunConfig

__all__ = [
    "Layer",
    "Resolved",
    "RunConfig",
    "config_hash",
    "load_file",
    "merged",
    "parse_overrides",
    "refuse_defaults",
    "resolve",
]
