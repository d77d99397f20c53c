"""Config of a run: its keys, its values and their origins."""

from mygym.config.layers import Layer, Resolved, beneath, config_hash, merge_configs, overlaid, refuse_defaults, resolve
from mygym.config.loading import load_file, parse_overrides
from mygym.config.schema import RunConfig
from mygym.nested import merged

__all__ = [
    "Layer",
    "Resolved",
    "RunConfig",
    "beneath",
    "config_hash",
    "load_file",
    "merge_configs",
    "merged",
    "overlaid",
    "parse_overrides",
    "refuse_defaults",
    "resolve",
]
