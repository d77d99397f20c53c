"""Conformance suites of functions of states: predicates, rewards and observation components."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from mygym import api
from mygym.checks.stages import Episode, arrays_of, demand_pure, expert_episode, joined, play, setting
from mygym.checks.suite import Check, CheckFailed, demand
from mygym.checks.tasks import with_robot
from mygym.config.schema import ImageParams
from mygym.registry import registry
from mygym.tasks.context import StageContext
from mygym.tasks.episode import EpisodeContext
from mygym.tasks.observations import camera_of, find_component
from mygym.tasks.rewards import Memory, Reward, find_reward
from mygym.types import FloatArray
from mygym.vision.encoder import Encoder, EncoderNetwork

STAGE = "move"
"""Stage of the episode in which predicates are checked that no stage gives."""


def predicate_checks(name: str) -> Iterator[Check]:
    """Yield the checks of a predicate, in an expert's episode of a stage that gives it."""
    episodes: list[Episode] = []

    def plays() -> str:
        stage = giving_stage(name)
        episodes.append(expert_episode(setting(stage or STAGE)))
        return f"in {stage}" if stage else f"in {STAGE}, as no stage gives it"

    yield Check("loads", lambda: _has_conditions(name))
    yield Check("episode", plays, needs=("loads",))
    yield Check("pure functions", lambda: _is_pure_predicate(name, episodes[0]), needs=("episode",))
    yield Check("keeps holding", lambda: _keeps(name, episodes[0]), needs=("pure functions",))
    yield Check("excludes", lambda: _excludes(name, episodes[0]), needs=("pure functions",))


def giving_stage(name: str) -> str | None:
    """Return a stage that gives a predicate, preferably a built-in stage; None if no stage gives it."""
    stages = [(not entry.built_in, entry.name) for entry in registry("stage") if name in entry.load().gives]
    return min(stages)[1] if stages else None


def _load(name: str) -> Any:
    return registry("predicate").get(name).load()


def _has_conditions(name: str) -> None:
    predicate = _load(name)
    for condition in ("begins", "keeps"):
        demand(callable(getattr(predicate, condition, None)), f"{condition} is no function")
    demand(registry("predicate").get(name).help, "has no help: write a docstring")


def _contexts(episode: Episode) -> tuple[StageContext, list[StageContext]]:
    """Return the states as the last stage sees them: as a batch, and each as a batch of 1."""
    bound = episode.contexts[0].task.stage_bindings[-1]

    def seen(context: EpisodeContext) -> StageContext:
        return StageContext(context.state, context.progress, context.goals, bound)

    return seen(episode.batch), [seen(context) for context in episode.contexts]


def _is_pure_predicate(name: str, episode: Episode) -> str:
    predicate, (batch, singles) = _load(name), _contexts(episode)
    arrays = arrays_of(batch)
    shares = []
    for condition in ("begins", "keeps"):
        result = demand_pure(condition, getattr(predicate, condition), batch, singles, arrays, exact=True)
        demand(result.dtype == bool, f"{condition} gives {result.dtype}, not bool")
        shares.append(f"{condition} in {result.mean():.0%} of the states")
    return ", ".join(shares)


def _keeps(name: str, episode: Episode) -> None:
    """A predicate keeps holding in every state in which it begins to hold; else it would be lost in the next step."""
    predicate, (batch, _) = _load(name), _contexts(episode)
    begins, keeps = np.asarray(predicate.begins(batch)), np.asarray(predicate.keeps(batch))
    lost = int((begins & ~keeps).sum())
    demand(lost == 0, f"begins to hold in {lost} states in which it does not keep holding")


def _excludes(name: str, episode: Episode) -> None:
    """Predicates that exclude each other do not begin to hold together."""
    predicate, (batch, _) = _load(name), _contexts(episode)
    begins = np.asarray(predicate.begins(batch))
    for other in getattr(predicate, "excludes", ()):
        both = int((begins & np.asarray(_load(other).begins(batch))).sum())
        demand(both == 0, f"excludes {other}, but both begin to hold in {both} states")


GAMMA = 0.95
"""Discount for the checks of rewards."""

TASKS = ("push", "open_drawer", "maze", "stack", "hand_over")
"""Tasks for the checks of rewards, the first in which a reward can be computed: some need a part or a second arm."""


def reward_checks(name: str) -> Iterator[Check]:
    """Yield the checks of a reward, in episodes of the expert and of random actions."""
    yield Check("loads", lambda: demand(isinstance(find_reward(name), Reward), "is not a Reward"))
    config = cache(lambda: _config_for(name))
    yield Check("finite", lambda: _is_finite(config()), needs=("loads",))
    yield Check("batches", lambda: _is_batched(config()), needs=("finite",))
    yield Check("relabelling", lambda: _relabels(config()), needs=("finite",))


def _config_for(reward: str) -> dict[str, Any]:
    """Return the config of the first of `TASKS` in which a reward can be computed; if there is none, of the first.

    Each other is tried because a mistake and a task that lacks a part raise the same errors; the check names the task.
    """
    configs = [{"task": task, "reward": reward} for task in TASKS]
    for config in configs:
        with contextlib.suppress(Exception), api.make_env(config) as env:
            env.reset(seed=0)
            env.step(env.action_space.sample())
            return config
    return configs[0]


def _is_finite(config: Mapping[str, Any]) -> str:
    """The reward of every step of an episode is a finite number."""
    returns = {}
    with api.make_env(config) as env:
        env.action_space.seed(0)
        for policy, act in {"expert": env.expert_action, "random": env.action_space.sample}.items():
            rewards, *_ = play(env, 0, lambda _, act=act: act())  # type: ignore[misc]
            wrong = np.flatnonzero(~np.isfinite(rewards))
            demand(not len(wrong), f"is not finite in step {wrong[:1]} of an episode with {policy} actions")
            returns[policy] = float(rewards.sum())
    place = "" if config["task"] == TASKS[0] else f" in {config['task']}, because it cannot be computed in {TASKS[0]}"
    return ", ".join(f"{policy} actions {total:.2f}" for policy, total in returns.items()) + place


def _is_batched(config: Mapping[str, Any]) -> None:
    """The reward of a batch equals the rewards of its single goals or states; arguments are unchanged."""
    reward = find_reward(config["reward"])
    if reward.depends_on_goals_only:
        _is_batched_over_goals(config)
        return
    contexts = expert_episode({"task": config["task"]}).contexts

    def step(state: tuple[EpisodeContext, Memory]) -> tuple[Any, Memory]:
        n = len(state[0].goals)
        return reward.step_reward(*state, sparse=np.full(n, -1.0), gamma=GAMMA, failed=np.zeros(n, dtype=bool))

    memories = [reward.begin(contexts[0])]
    for context in contexts[1:]:
        memories.append(step((context, memories[-1]))[1])
    singles = list(zip(contexts[1:], memories[:-1], strict=True))
    batch = joined(contexts[1:])
    memory = {name: np.concatenate([memory[name] for _, memory in singles]) for name in memories[0]}
    arrays = [*arrays_of(batch), *memory.values()]
    demand_pure("the reward", lambda state: step(state)[0], (batch, memory), singles, arrays)


def _is_batched_over_goals(config: Mapping[str, Any]) -> None:
    _, observations = _expert(config)
    with api.make_env(config) as env:
        pairs = [(seen["achieved_goal"][None], seen["desired_goal"][None]) for seen in observations]
        batch = tuple(map(np.concatenate, zip(*pairs, strict=True)))
        demand_pure("the reward", lambda goals: env.compute_reward(*goals, {}), batch, pairs, batch)


def _relabels(config: Mapping[str, Any]) -> str:
    """`compute_reward` repeats the rewards of the episode, and is highest for reaching the goal."""
    if not find_reward(config["reward"]).depends_on_goals_only:
        return "a reward of the context: hindsight gets the sparse reward"
    rewards, observations = _expert(config)
    with api.make_env(config) as env:
        for seen, reward in zip(observations[1:], rewards, strict=True):
            again = float(env.compute_reward(seen["achieved_goal"], seen["desired_goal"], {}))
            demand(again == reward, f"compute_reward gives {again:g} where the step gave {reward:g}")
        first, last = observations[0], observations[-1]
        reached = float(env.compute_reward(last["achieved_goal"], last["achieved_goal"], {}))
        missed = float(env.compute_reward(first["achieved_goal"], last["achieved_goal"], {}))
        demand(reached >= missed, f"gives {reached:g} for reaching a relabelled goal, and {missed:g} for missing it")
    return f"{reached + 0.0:g} for reaching a relabelled goal, {missed:g} for missing it"  # no "-0"


def _expert(config: Mapping[str, Any]) -> tuple[FloatArray, list[Any]]:
    """Return the `n` rewards of an expert's episode, and its `n + 1` observations."""
    with api.make_env(config) as env:
        rewards, _, observations = play(env, 0, lambda _: env.expert_action())
    return rewards, observations


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
    yield Check("pure function", lambda: _is_pure_component(name, episodes[0]), needs=("exists",))


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
            context = joined([env.context])
        if np.asarray(find_component(name).function(context)).shape[-1] > 0:
            return config
    raise CheckFailed("has no numbers in any built-in task")


def _is_pure_component(name: str, episode: Episode) -> str:
    component = find_component(name)
    batch = episode.batch
    values = demand_pure("the component", component.function, batch, episode.contexts, arrays_of(batch), shape=None)
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

    images = ImageParams()
    network = EncoderNetwork((3, images.height, images.width), LATENTS).eval()
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "encoder.safetensors")
        file.write_bytes(Encoder(network, "image", (camera_of(name),), images).to_bytes())
        yield {"encoder": str(file)}
