"""Tables of the built-in components: their modules, folders, aliases and extras."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

ASSETS = Path(__file__).parents[1] / "assets"

KINDS = (
    *("algorithm", "policy", "features_extractor", "activation", "optimizer", "schedule"),
    *("strategy", "sampler", "callback"),
    *("robot", "workspace", "object", "controller"),
    *("task", "stage", "predicate", "reward", "observation", "randomizer"),
)
"""Kinds of components, in the order of `mygym list`."""

FRAMEWORK_KINDS = ("algorithm", "policy", "features_extractor", "activation", "optimizer")
"""Kinds whose components belong to a framework."""

BUILTIN_MODULES: Mapping[str, str] = {
    "algorithm": "mygym.algos.defaults",
    "policy": "mygym.experts",
    "features_extractor": "mygym.algos.networks",
    "activation": "mygym.algos.networks",
    "optimizer": "mygym.algos.networks",
    "schedule": "mygym.config.schedules",
    "observation": "mygym.tasks.components",
    "reward": "mygym.tasks.rewards",
    "predicate": "mygym.tasks.stages",
    "strategy": "mygym.strategies.built_in",
    "sampler": "mygym.strategies.mixture.samplers",
    "callback": "mygym.planning.callbacks",
    "randomizer": "mygym.envs.randomizers",
    "controller": "mygym.robotics.controllers",
    "task": "mygym.tasks.named",
    "stage": "mygym.tasks.stages",
}
"""Kind → light module that registers its built-in components when it is imported, at the first look-up."""

BUILTIN_FOLDERS: Mapping[str, str] = {"robot": "robots", "workspace": "workspaces", "object": "objects"}
"""Kind → folder of `assets/`; each YAML file in it and its subfolders is a component, named by the file's stem."""

ALIASES: Mapping[str, Mapping[str, str]] = {"strategy": {"experts": "mixture"}}
"""Kind → alias → name, for built-in components that are not registered with their aliases."""

EXTRAS: Mapping[str, str] = {
    **dict.fromkeys(("sbx", "jax", "jaxlib", "flax", "optax", "tensorflow_probability"), "jax"),
    **dict.fromkeys(("minari", "h5py"), "demos"),
    "mujoco": "mjcf",
    "pyarrow": "lerobot",
    "trimesh": "meshes",
    "wandb": "wandb",
    "mlflow": "mlflow",
    "matplotlib": "results",
    **dict.fromkeys(("onnx", "onnxruntime", "onnxscript"), "export"),
    **dict.fromkeys(("optuna", "cmaes"), "sweep"),
    **dict.fromkeys(("ray", "submitit"), "cluster"),
    "xacro": "xacro",
}
"""Import name of a package → the extra of mygym that installs it."""

FRAMEWORK_EXTRAS: Mapping[str, str] = {"jax": "jax"}
"""Framework → the extra of mygym that installs it."""

FOLDER_EXTRAS: Mapping[str, str] = {"example_robot_data": "robots"}
"""Subfolder of `assets/` → the extra of mygym that its components need."""

EXTRA_DISTRIBUTIONS: Mapping[str, str] = {"robots": "example-robot-data"}
"""Extra of mygym that installs no Python package → the distribution that it installs."""
