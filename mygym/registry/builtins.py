"""Tables of the built-in components: the modules, folders, aliases and extras in which they come."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

ASSETS = Path(__file__).parents[1] / "assets"

KINDS = (
    *("algorithm", "policy", "features_extractor", "activation", "optimizer", "schedule", "strategy"),
    *("robot", "workspace", "object", "controller"),
    *("task", "stage", "predicate", "reward", "observation", "randomizer"),
)
"""Kinds of components, in the order of `mygym list`."""

FRAMEWORK_KINDS = ("algorithm", "policy", "features_extractor", "activation", "optimizer")
"""Kinds whose components belong to a framework."""

BUILTIN_MODULES: Mapping[str, str] = {
    "algorithm": "mygym.algos",
    "policy": "mygym.experts",
    "features_extractor": "mygym.algos.networks",
    "activation": "mygym.algos.networks",
    "optimizer": "mygym.algos.networks",
    "schedule": "mygym.config.schedules",
    "observation": "mygym.tasks.components",
    "reward": "mygym.tasks.rewards",
    "predicate": "mygym.tasks.predicates",
    "strategy": "mygym.strategies",
    "randomizer": "mygym.envs.randomizers",
    "task": "mygym.tasks.named",
    "stage": "mygym.tasks.stages",
}
"""Kind → light module that registers its built-in components when it is imported, at the first look-up."""

BUILTIN_FOLDERS: Mapping[str, str] = {"robot": "robots", "workspace": "workspaces", "object": "objects"}
"""Kind → folder of `assets/`; each YAML file in it and its subfolders is one component, named by the file's stem."""

BUILTIN_STRINGS: Mapping[str, Mapping[str, tuple[str, str]]] = {
    "controller": {
        "ee_delta": (
            "mygym.models.controllers:EndEffectorDelta",
            "moves the commanded end-effector position by up to 5 cm",
        ),
        "ee_absolute": (
            "mygym.models.controllers:EndEffectorAbsolute",
            "commands the end effector's position within the tool's bounds, held upright",
        ),
        "joint_delta": ("mygym.models.joint_controllers:JointDelta", "moves the commanded joint angles"),
        "joint_position": (
            "mygym.models.joint_controllers:JointPosition",
            "commands joint angles over their whole range",
        ),
        "joint_velocity": (
            "mygym.models.joint_controllers:JointVelocity",
            "commands joint velocities up to their limits",
        ),
        "joint_torque": (
            "mygym.models.joint_controllers:JointTorque",
            "commands joint torques up to their limits, on top of gravity and friction compensation",
        ),
    },
}
"""Kind → name → import string `module:attribute` and help."""

ALIASES: Mapping[str, Mapping[str, str]] = {
    "controller": {"step": "ee_delta", "absolute": "ee_absolute", "joints": "joint_position"}
}
"""Kind → alias → name, for the command line and configs."""

DESCRIPTIONS = (".yaml", ".yml", ".urdf")
"""Suffixes of the files that can be given instead of the name of a robot, workspace or object."""

EXTRAS: Mapping[str, str] = {
    **dict.fromkeys(("sbx", "jax", "jaxlib", "flax", "optax", "tensorflow_probability"), "jax"),
    **dict.fromkeys(("minari", "h5py"), "demos"),
}
"""Package, as it is imported → the extra of mygym that installs it."""

FRAMEWORK_EXTRAS: Mapping[str, str] = {"jax": "jax"}
"""Framework → the extra of mygym that installs it."""

FOLDER_EXTRAS: Mapping[str, str] = {"example_robot_data": "robots"}
"""Subfolder of `assets/` → the extra of mygym that its components need."""

EXTRA_DISTRIBUTIONS: Mapping[str, str] = {"robots": "example-robot-data"}
"""Extra of mygym that installs no Python package → the distribution that it installs."""
