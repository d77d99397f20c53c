"""Conformance suite of observation components: constant width, finite, within bounds, and the same in a batch."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from mygym import api
from mygym.checks.batches import Episode, arrays_of, copied, demand_pure, expert_episode
from mygym.checks.cards import with_robot
from mygym.checks.suite import Check, CheckFailed, demand
from mygym.config.schema import ImageParams
from mygym.registry import registry
from mygym.tasks.episode import EpisodeContext
from mygym.tasks.observations import camera_of, find_component

ROUNDING = 1e-6
"""Share by which a value may exceed its bound: the numbers of a unit quaternion are rounded."""

LATENTS = 4
"""Latents of the encoder with which components of latents are checked."""


def observation_checks(name: str) -> Iterator[Check]:
    """Yield the checks of an observation component, in an expert's episode of a task that has it."""
    if find_component(name).uses_camera:
        yield Check("same in a repeated episode", lambda: _is_repeated(name))
        return
    episodes: list[Episode] = []

    def exists() -> str:
        config = example(name)
        episodes.append(expert_episode(config))
        return f"in {config['task']}"

    yield Check("exists", exists)
    yield Check("pure function", lambda: _is_pure(name, episodes[0]), needs=("exists",))


def example(name: str) -> dict[str, Any]:
    """Return the config of a task in which the component has at least one number; the shortest task is preferred.

    Raises:
        CheckFailed: The component is empty in every built-in task.
    """
    tasks = sorted(
        (entry for entry in registry("task") if entry.built_in), key=lambda entry: len(entry.load().sequence.stages)
    )
    configs: list[dict[str, Any]] = [{"task": entry.name} for entry in tasks]
    configs.insert(1, {"task": "push", "task_params": {"distractors": ["can"]}})
    for config in map(with_robot, configs):
        with api.make_env(config) as env:
            env.reset(seed=0)
            context = copied(EpisodeContext(env.task, env.progress, env.world.state, env.goals))
        if np.asarray(find_component(name).function(context)).shape[-1] > 0:
            return config
    raise CheckFailed("has no numbers in any built-in task")


def _is_pure(name: str, episode: Episode) -> str:
    component = find_component(name)
    batch = episode.batch
    arrays = [*arrays_of(batch.state), *arrays_of(batch.progress), batch.goals]
    values = demand_pure("the component", component.function, batch, episode.contexts, arrays)
    demand(values.ndim == 2, f"the component has shape {values.shape}, not (N, d)")
    largest = float(np.abs(values).max())
    limit = component.bound * (1.0 + ROUNDING)
    demand(largest <= limit, f"has a value of {largest:g}; its bound is {component.bound:g}")
    return f"{values.shape[1]} numbers, at most {largest:.3g}"


def _is_repeated(name: str) -> str:
    """Check the observations of a camera component, in an episode of `push` that is played twice."""
    with (
        _image_params(name) as images,
        api.make_env(with_robot({"task": "push", "observations": [name], "image_params": images})) as env,
    ):
        space = env.observation_space
        episodes: list[list[Any]] = []
        for _ in range(2):
            observations: list[Any] = [env.reset(seed=0)[0], *(env.step(env.expert_action())[0] for _ in range(5))]
            for observation in observations:
                demand(space.contains(observation), f"the component gives {observation}, not a value of {space}")
            episodes.append([next(iter(observation.values())) for observation in observations])
    first, second = episodes
    demand(np.array_equal(first, second), "the component differs when the episode is repeated")
    demand(not np.array_equal(first[0], first[-1]), "the component does not change in an episode")
    return f"{first[0].shape}, from {np.min(first):.3g} to {np.max(first):.3g}"


@contextlib.contextmanager
def _image_params(name: str) -> Iterator[dict[str, Any]]:
    """Yield `image_params` for a camera component; latents need the file of an encoder, trained or not."""
    if not find_component(name).encoded:
        yield {}
        return
    from mygym.vision.encoder import Encoder, EncoderNetwork

    images = ImageParams()
    network = EncoderNetwork((3, images.height, images.width), LATENTS).eval()
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "encoder.safetensors")
        file.write_bytes(Encoder(network, "image", (camera_of(name),), images).to_bytes())
        yield {"encoder": str(file)}
