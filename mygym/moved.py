"""Modules under their names before version 0.2.0, for files of users and for saved models that name them."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

PACKAGES: Mapping[str, str] = {
    "mygym.fused": "mygym.engines.fused",
    "mygym.models": "mygym.robotics",
    "mygym.perception": "mygym.vision",
    "mygym.runs": "mygym.training",
    "mygym.runs.planning": "mygym.planning",
    "mygym.sim": "mygym.engines.bullet",
    "mygym.sim.rendering": "mygym.engines.rendering",
}
"""Former package → package; their modules have kept their names, except those of `MODULES`."""

MODULES: Mapping[str, str] = {
    "mygym.algos.asymmetric": "mygym.algos.stable_baselines",
    "mygym.algos.contrib": "mygym.algos.stable_baselines",
    "mygym.algos.image_augmentation": "mygym.algos.images",
    "mygym.algos.image_networks": "mygym.algos.images",
    "mygym.algos.imitation_policies": "mygym.algos.imitation",
    "mygym.checks.cards": "mygym.checks.tasks",
    "mygym.checks.teaching": "mygym.checks.stages",
    "mygym.config.plain": "mygym.config.loading",
    "mygym.config.schedulable": "mygym.config.schedules",
    "mygym.config.schedule_shapes": "mygym.config.schedules",
    "mygym.envs.compatibility": "mygym.envs.supported",
    "mygym.envs.detected_objects": "mygym.envs.camera_views",
    "mygym.envs.observation_spec": "mygym.envs.observation_builder",
    "mygym.models.controllers.lookup": "mygym.robotics.controllers.controller",
    "mygym.models.inference.robots": "mygym.robotics.robot",
    "mygym.reporting.selection": "mygym.reporting.comparison",
    "mygym.robotics.robots": "mygym.robotics.robot_spec",
    "mygym.runs.built_config": "mygym.training.model_factory",
    "mygym.runs.callbacks": "mygym.planning.callbacks",
    "mygym.runs.loop": "mygym.training.runner",
    "mygym.runs.planning.resolve_config": "mygym.planning.resolve",
    "mygym.runs.planning.variants": "mygym.planning.strategies",
    "mygym.runs.weights": "mygym.training.policy",
    "mygym.envs.fused_envs": "mygym.envs.batch_env",
    "mygym.envs.fused_vec_env": "mygym.envs.batch_vec_env",
    "mygym.envs.fused_vector_env": "mygym.envs.batch_vector_env",
    "mygym.fused.arrays": "mygym.engines.arrays",
    "mygym.sim.bullet": "mygym.engines.bullet.client",
    "mygym.sim.robot_lookup": "mygym.robotics.robot",
    "mygym.sim.world": "mygym.engines.world",
    "mygym.strategies.adapters": "mygym.strategies.fine_tuning",
    "mygym.strategies.mixture.protocols": "mygym.strategies.mixture.routing",
    "mygym.sweeps.cluster": "mygym.sweeps.executors",
    "mygym.tasks.episode_context": "mygym.tasks.episode",
    "mygym.tasks.goal_terms": "mygym.tasks.predicates",
    "mygym.tasks.predicate": "mygym.tasks.predicates",
    "mygym.tasks.progress": "mygym.tasks.state",
    "mygym.tasks.subtask": "mygym.tasks.stage",
    "mygym.training.curves": "mygym.training.result",
    "mygym.training.variance_floor": "mygym.training.vec_wrappers",
}
"""Former module → module, where documents or saved models named it."""


NAMES: Mapping[str, str] = {"FusedEnvs": "BatchEnv", "FusedVecEnv": "BatchVecEnv", "FusedVectorEnv": "BatchVectorEnv"}
"""Former name in one of these modules → name."""


def new_name(name: str) -> str | None:
    """Return the name of a module that had another name, or None."""
    if name in MODULES:
        return MODULES[name]
    packages = (package for package in PACKAGES if name == package or name.startswith(f"{package}."))
    package = max(packages, key=len, default=None)
    return None if package is None else PACKAGES[package] + name.removeprefix(package)


class _Finder(MetaPathFinder, Loader):
    """Gives a module under its former name: a module whose attributes are those of the new one."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        name = new_name(fullname)
        if name is None:
            return None
        return ModuleSpec(fullname, self, origin=name, is_package=fullname in PACKAGES)

    def exec_module(self, module: ModuleType) -> None:
        assert module.__spec__ is not None
        new = import_module(str(module.__spec__.origin))
        vars(module).update({"__getattr__": lambda name: getattr(new, NAMES.get(name, name)), "__doc__": new.__doc__})


def install() -> None:
    """Let imports find modules under their former names."""
    sys.meta_path.append(_Finder())
