"""Config of a run: its keys, its values and their origins.

schema             keys of a config
layers             layers of values → a validated config, with the origin of each value
loading            YAML and JSON files, and `key=value` overrides
conversion         config files of other systems → a config, with notes
toolkit            conversion of the files of the original myGym toolkit
zoo                conversion of the files of RL Zoo
plain              values that YAML and JSON both store
hyperparameters    schema of `algo_params`
named_components   classes and functions that configs name
parameter_checks   checks of values against the parameters of a class or function
ranges             ranges of hyperparameters whose signatures have no bounds
schedules          hyperparameters that change during training
schedule_shapes    built-in shapes of schedules
schedulable        search for the hyperparameters that may change
json_schema        JSON schema for editors
validation_errors  pydantic's errors → key, value and allowed values
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
