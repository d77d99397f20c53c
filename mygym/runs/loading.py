"""The config and the policy of a run that was trained before."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from mygym.config import RunConfig, load_file
from mygym.errors import RunError
from mygym.runs import devices, directory, factory
from mygym.runs.resolve_config import resolve_config

if TYPE_CHECKING:
    from mygym.runs.policy import Policy


def config_of_run(run: str | Path) -> RunConfig:
    """The complete config of a run.

    Raises:
        ConfigError: It is no run.
    """
    return resolve_config(load_file(directory.find(run) / directory.CONFIG)).config


def load(run: str | Path, *, trust: bool = False) -> Policy:
    """The policy of a run, with SB3's `predict(observation, deterministic=True) → (action, state)`.

    Reads `config.yaml` and `policy.safetensors`; nothing is unpickled.

    Args:
        run: A run directory; or a file in one: `best_policy.safetensors`, or an SB3 file such as `model.zip`.
        trust: Open an SB3 file though another machine or program has written it: the pickles in it can run any code.

    Raises:
        ConfigError: It is no run, or an SB3 file of a stranger.
        RunError: Missing, damaged, or of another network.
    """
    from mygym.runs.policy import load_policy, open_model

    folder, file = directory.find_policy(run)
    config = config_of_run(folder)
    acting = factory.for_acting(config)
    if file.suffix == ".zip":
        devices.use(config.framework, acting.device, config.threads)
        policy = open_model(file, factory.loadable(config), trust, acting.device)
    else:
        env = factory.make_vec_env(acting)
        try:
            policy = load_policy(file, factory.build_model(acting, env))
        finally:
            env.close()
    if config.normalize != bool(policy.normalizer):
        has = "has a normaliser" if policy.normalizer else "has no normaliser"
        raise RunError(
            f"{file}: {has}, but {folder / directory.CONFIG} says normalize: {str(config.normalize).lower()}"
        )
    return policy
