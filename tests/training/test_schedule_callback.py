"""Schedules in training: values at each env step, resumed and extended runs, refusals."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

import mygym
from benchmarks.kills import differences
from mygym.algos.stable_baselines import PPO
from mygym.config import load_file, merged
from mygym.config.schedules import may_be_scheduled, schedules
from mygym.errors import ConfigError
from mygym.planning.resolve import resolve_config
from mygym.registry import add_algorithm, algorithm, register_algorithm
from mygym.training import env_factory, model_factory
from mygym.training.policy import weights
from mygym.training.runner import Runner
from mygym.training.schedule_callback import ScheduleCallback
from tests.components import ALGORITHMS, COMBOS, known, slow_except, small
from tests.training.test_resuming import config, stopped

ENDS: Mapping[str, tuple[float, float]] = {
    "action_noise": (0.5, 0.05),
    "cg_damping": (1e-3, 0.1),
    "clip_range": (0.3, 0.01),
    "clip_range_vf": (0.3, 0.01),
    "delta_std": (0.1, 0.01),
    "ent_coef": (0.2, 0.01),
    "learning_rate": (1e-2, 1e-3),
    "line_search_shrinking_factor": (0.95, 0.3),
    "max_grad_norm": (0.5, 0.01),
    "target_entropy": (-1.0, -6.0),
    "target_kl": (0.1, 1e-6),
    "target_noise_clip": (0.5, 0.01),
    "target_policy_noise": (0.5, 0.01),
    "tau": (0.5, 0.01),
    "vf_coef": (0.8, 0.1),
}
"""First and last value of each hyperparameter in these tests."""


LINEAR: dict[str, Any] = {"schedule": "linear", "from": 1e-3, "to": 0.0}


def class_of(algo: str, framework: str | None = None) -> type:
    return algorithm(algo, framework).combo()[0]


EACH = [(algo, framework, name) for algo, framework in COMBOS for name in may_be_scheduled(class_of(algo, framework))]

OVERRULED = {("myalgo", "pytorch", "ent_coef")}
"""Hyperparameters that an algorithm sets itself."""


def ends(name: str) -> tuple[float, float]:
    return ENDS.get(name, (0.5, 0.05))


def linear(name: str) -> dict[str, Any]:
    first, last = ends(name)
    return {"schedule": "linear", "from": first, "to": last}


def quick(algo: str, framework: str = "pytorch") -> dict[str, Any]:
    """Return `algo_params` for several fast updates, none of which is skipped."""
    accepted = known(class_of(algo, framework))
    more = (
        {"n_steps": 16}
        if "gae_lambda" in accepted
        else {"learning_starts": 20}
        if "learning_starts" in accepted
        else {}
    )
    return small(algo, framework) | more


def settings(algo: str, params: Mapping[str, Any], **more: Any) -> Any:
    steps = 480 if "n_delta" in params or algo == "ars" else 160
    values = {"algo": algo, "steps": steps, "n_envs": 2, "reward": "dense", "task_params": {"horizon": 10}}
    defaults = quick(algo, more.get("framework", "pytorch"))
    return resolve_config(overrides=merged(values, {"algo_params": {**defaults, **params}, **more})).config


def learned(algo: str, framework: str, params: Mapping[str, Any]) -> np.ndarray:
    """Return all weights after a short training."""
    run_config = settings(algo, params, framework=framework)
    env = env_factory.make_vec_env(run_config)
    try:
        model = model_factory.build_model(run_config, env)
        model.learn(
            run_config.steps, callback=ScheduleCallback(model_factory.schedules_of(run_config), run_config.steps)
        )
    finally:
        env.close()
    return np.concatenate([value.double().numpy().ravel() for value in weights(model).values()])


def fixed_numbers(algo: str, framework: str, name: str) -> dict[str, Any]:
    """Return plain numbers for all schedulable hyperparameters; a target entropy needs a tuned coefficient."""
    schedulable = [triple for triple in EACH if triple[:2] == (algo, framework) and triple not in OVERRULED]
    numbers = {key: ends(key)[0] for *_, key in schedulable if key != "target_entropy"}
    if name == "target_entropy":
        numbers |= {"ent_coef": "auto_0.2", name: ends(name)[0]}
    return numbers


@cache
def learned_with_numbers(algo: str, framework: str, tuned: bool) -> np.ndarray:
    return learned(algo, framework, fixed_numbers(algo, framework, "target_entropy" if tuned else ""))


SCHEDULABLE = [triple for triple in EACH if triple not in OVERRULED]
TUNED = {(algo, framework) for algo, framework, name in SCHEDULABLE if name == "target_entropy"}
PREFERRED = ("ppo", "sac", "td3", "trpo", "ppo_runner")
"""Algorithms that share most hyperparameters: a case of one of them needs no further reference."""
PYTORCH_PARAMETERS = sorted(
    (triple for triple in SCHEDULABLE if triple[1] == "pytorch"), key=lambda triple: triple[0] not in PREFERRED
)
FIRST_PARAMETERS = list(
    {name: (algo, framework, name) for algo, framework, name in reversed(PYTORCH_PARAMETERS)}.values()
)
"""A case for each hyperparameter. The values that each algorithm uses: see test_used_value_is_the_schedule."""
USED_QUICKLY = {("ppo", False), ("sac", True), ("td3", False), ("trpo", False), ("ars", False)}
"""An algorithm of each kind: on-policy, tuned coefficient, action noise, line search, random search."""
KINDS = {algo: may_be_scheduled(class_of(algo)) for algo in ALGORITHMS}
USED = {name for algo, _ in USED_QUICKLY for name in KINDS[algo]}
FIRST_OF_EACH_KIND = {KINDS[triple[0]][triple[2]]: triple for triple in reversed(FIRST_PARAMETERS)}
CHANGING = [triple for triple in FIRST_PARAMETERS if triple[2] not in USED or triple in FIRST_OF_EACH_KIND.values()]
"""Hyperparameters whose use no test of `USED_QUICKLY` observes, and one of each kind that a test observes."""
CONSTANT = {("ppo", "pytorch", False), ("sac", "pytorch", True)}
"""On-policy and off-policy; each in JAX compiles for half a minute."""


@pytest.mark.parametrize(
    ("algo", "framework", "name"),
    slow_except(SCHEDULABLE, lambda triple: triple in CHANGING and triple[0] in ("ppo_runner", "ddqn", "dagger")),
)
def test_every_schedule_changes_the_weights(algo: str, framework: str, name: str) -> None:
    numbers = fixed_numbers(algo, framework, name)
    reference = learned_with_numbers(algo, framework, name == "target_entropy")
    assert not np.array_equal(learned(algo, framework, numbers | {name: linear(name)}), reference)


@pytest.mark.parametrize(
    ("algo", "framework", "tuned"),
    [
        pytest.param(algo, framework, tuned, marks=[] if (algo, framework, tuned) in CONSTANT else [pytest.mark.slow])
        for algo, framework in dict.fromkeys(triple[:2] for triple in SCHEDULABLE)
        for tuned in sorted({False, (algo, framework) in TUNED})
    ],
)
def test_constant_schedules_change_nothing(algo: str, framework: str, tuned: bool) -> None:
    """All schedules of an algorithm together: any difference is caused by the schedules."""
    numbers = fixed_numbers(algo, framework, "target_entropy" if tuned else "")
    values = {name: value for name, value in numbers.items() if not isinstance(value, str)}
    constant = {name: {"schedule": "constant", "value": value} for name, value in values.items()}
    reference = learned_with_numbers(algo, framework, tuned)
    np.testing.assert_array_equal(learned(algo, framework, numbers | constant), reference)


@pytest.mark.parametrize(("algo", "framework", "name"), sorted(OVERRULED))
def test_schedule_of_a_value_that_the_algorithm_sets_is_refused(algo: str, framework: str, name: str) -> None:
    with pytest.raises(ConfigError, match=rf"algo_params\.{name}: .*also sets it during training"):
        learned(algo, framework, {name: linear(name)})


# Used values --------------------------------------------------------------------------------------------------------


def optimizers(model: Any) -> Iterator[Any]:
    for name in ("policy", "actor", "critic"):
        if hasattr(getattr(model, name, None), "optimizer"):
            yield getattr(model, name).optimizer
    if getattr(model, "ent_coef_optimizer", None) is not None:
        yield model.ent_coef_optimizer


def watched(algo: str) -> list[tuple[int, str, float]]:
    """Register a subclass as `watched` and return the list of its `(env steps, name, value used)` in each update."""
    cls = class_of(algo)
    used_values: list[tuple[int, str, float]] = []

    class Watched(cls):  # type: ignore[misc, valid-type]
        def train(self, *args: Any, **kwargs: Any) -> None:
            held = {key: vars(self).get(key) for key, kind in may_be_scheduled(cls).items() if kind == "held"}
            super().train(*args, **kwargs)
            record_values(self, self.num_timesteps, held)
            for optimizer in optimizers(self):
                used_values.extend(
                    (self.num_timesteps, "learning_rate", group["lr"]) for group in optimizer.param_groups
                )

        def _do_one_update(self, *args: Any) -> None:
            before = self.num_timesteps
            super()._do_one_update(*args)
            record_values(self, before, {})

        def _sample_action(self, learning_starts: int, action_noise: Any = None, n_envs: int = 1) -> Any:
            for noise in getattr(action_noise, "noises", []):
                used_values.extend((self.num_timesteps, "action_noise", sigma) for sigma in noise._sigma)
            return super()._sample_action(learning_starts, action_noise, n_envs)

    def record_values(model: Any, steps: int, held: Mapping[str, Any]) -> None:
        logged = {key.removeprefix("train/"): value for key, value in model.logger.name_to_value.items()}
        known = {**held, **{key: logged[key] for key in may_be_scheduled(cls) if key in logged}}
        if "epsilon" in may_be_scheduled(cls):
            known["epsilon"] = model.exploration_rate
        used_values.extend(
            (steps, key, float(value)) for key, value in known.items() if isinstance(value, float | np.floating)
        )

    add_algorithm(replace(algorithm(algo), name="watched", target=Watched))
    return used_values


WATCHED = [
    algo
    for algo, framework in COMBOS
    if framework == "pytorch" and algo != "myalgo" and not issubclass(class_of(algo), Runner)
]
"""Algorithms with SB3's `train` or a similar method; `test_every_schedule_changes_the_weights` covers runners."""
CASES = [(algo, tuned) for algo in WATCHED for tuned in {False, (algo, "pytorch") in TUNED}]


@pytest.mark.parametrize(
    ("algo", "tuned"), slow_except(sorted(CASES), {("ppo", False), ("sac", True), ("ars", False)}.__contains__)
)
def test_used_value_is_the_schedule_at_the_env_step(algo: str, tuned: bool, tmp_path: Path) -> None:
    excluded = "ent_coef" if tuned else "target_entropy"
    names = [key for *of, key in EACH if of == [algo, "pytorch"] and key != excluded]
    used_values = watched(algo)
    params = {name: linear(name) for name in names} | ({"ent_coef": "auto_0.2"} if tuned else {})
    run_config = settings("watched", {**quick(algo), **params}, logdir=str(tmp_path), stop_at_success=None,
                       eval={"every": 40, "episodes": 1, "final_episodes": 1}, video={"episodes": 0})  # fmt: skip
    result = mygym.train(run_config)
    expected = schedules(class_of(algo), run_config.algo_params, run_config.steps)
    for name in names:
        used = [(steps, value) for steps, key, value in used_values if key == name]
        assert len({value for _, value in used}) > 3, f"{name} has one value for all of learn"
        for steps, value in used:
            assert value == pytest.approx(expected[name].value(steps, run_config.steps), rel=1e-6), name
    lines = [json.loads(line) for line in (result.path / "progress.jsonl").read_text().splitlines()]
    for line in lines:
        assert {key for key in line if key.startswith("schedule/")} == {f"schedule/{name}" for name in names}
        for name in names:
            assert line[f"schedule/{name}"] == expected[name].value(line["steps"], run_config.steps)
    assert lines[0]["steps"] == 0
    assert lines[-1]["steps"] == result.steps


# Resumed and extended runs ------------------------------------------------------------------------------------------

SCHEDULED: dict[str, dict[str, Any]] = {
    "ppo": {key: linear(key) for key in ("learning_rate", "clip_range", "ent_coef", "target_kl")},
    "sac": {key: linear(key) for key in ("learning_rate", "ent_coef", "tau")},
    "td3": {key: linear(key) for key in ("learning_rate", "action_noise", "target_policy_noise")},
    "trpo": {key: linear(key) for key in ("learning_rate", "target_kl", "cg_damping")},
    "tqc": {"learning_rate": {"schedule": "piecewise", "points": [[0, 0.0], [100, 1e-2], [200, 1e-3]]}},
    "ddqn": {key: linear(key) for key in ("learning_rate", "epsilon", "tau")},
    "ars": {key: linear(key) for key in ("learning_rate", "delta_std")},
}


def scheduled(algo: str, logdir: Path, **more: Any) -> dict[str, Any]:
    return merged(config(algo, logdir, **more), {"algo_params": SCHEDULED[algo]})


@pytest.mark.parametrize("algo", slow_except(SCHEDULED, ("ppo",).__contains__))
def test_resumed_run_continues_its_schedules(algo: str, tmp_path: Path) -> None:
    reference = mygym.train(scheduled(algo, tmp_path / "whole"))
    run = stopped(scheduled(algo, tmp_path / "stopped"), step=150)
    result = mygym.train(resume=run)
    assert (result.status, result.steps) == ("done", reference.steps)
    assert differences(reference.path, run) == []


@pytest.mark.slow
@pytest.mark.parametrize("algo", slow_except(SCHEDULED, ("ars",).__contains__))
def test_schedules_of_an_extended_run_end_at_its_new_end(algo: str, tmp_path: Path) -> None:
    """After the old end the values are those of a run of the new length; before it they are not."""
    short = mygym.train(scheduled(algo, tmp_path))
    steps = 2 * short.steps
    longer = mygym.train({"steps": steps}, resume=short.path)
    assert longer.steps >= steps
    lines = [json.loads(line) for line in (short.path / "progress.jsonl").read_text().splitlines()]
    added = [line for line in lines if line["steps"] > short.steps]
    assert added
    expected = schedules(class_of(algo), SCHEDULED[algo], steps)
    for line in added:
        for name, schedule in expected.items():
            assert line[f"schedule/{name}"] == schedule.value(line["steps"], steps)
    if algo == "ars":  # its first update precedes any step
        assert added[0]["train/delta_std"] == expected["delta_std"].value(short.steps, steps)


def test_resume_refuses_a_changed_schedule(tmp_path: Path) -> None:
    run = stopped(scheduled("sac", tmp_path), step=150)
    with pytest.raises(ConfigError, match=r"algo_params\.tau\.to: 0\.02"):
        mygym.train({"algo_params": {"tau": {"to": 0.02}}}, resume=run)


# Files of the run ---------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("algo", slow_except(["ppo", "td3", "ars"], ("ars",).__contains__))
def test_config_of_a_run_repeats_its_schedules(algo: str, tmp_path: Path) -> None:
    values = scheduled(algo, tmp_path)
    first = mygym.train(values)
    content = yaml.safe_load((first.path / "config.yaml").read_text())
    for name, data in SCHEDULED[algo].items():
        assert content["algo_params"][name] == data
    second = mygym.train(load_file(first.path / "config.yaml"))
    assert (second.config_hash, second.path.parent) == (first.config_hash, first.path.parent)
    assert (second.path / "policy.safetensors").read_bytes() == (first.path / "policy.safetensors").read_bytes()


@pytest.mark.parametrize("algo", slow_except(SCHEDULED, ("ppo",).__contains__))
def test_saved_policies_load_and_act(algo: str, tmp_path: Path) -> None:
    params = (
        {"n_steps": 32} if "n_steps" in config(algo, tmp_path)["algo_params"] else {}
    )  # the batch of a single acting environment
    result = mygym.train(scheduled(algo, tmp_path, algo_params=params))
    with mygym.make_env(result.path) as env:
        observation, _ = env.reset(seed=3)
    model = mygym.load(result.path / "model.zip").model
    actions = [
        mygym.load(result.path / file).predict(observation)[0] for file in ("policy.safetensors", "model.zip", ".")
    ]
    np.testing.assert_array_equal(actions[0], actions[1])
    np.testing.assert_array_equal(actions[0], actions[2])
    assert mygym.evaluate(result.path / "model.zip", episodes=2).summary()
    schedule = schedules(type(model), SCHEDULED[algo], config(algo, tmp_path)["steps"])["learning_rate"]
    for steps in (0, 7, 120, 240):
        assert model.lr_schedule(1 - steps / 240) == schedule.value(steps, 240)


# Custom algorithms --------------------------------------------------------------------------------------------------


def test_example_has_a_schedulable_parameter(tmp_path: Path) -> None:
    assert may_be_scheduled(class_of("myalgo"))["initial_entropy"] == "held"
    run_config = settings("myalgo", {"initial_entropy": LINEAR})
    env = env_factory.make_vec_env(run_config)
    model = model_factory.build_model(run_config, env)
    values = []

    class Watch(ScheduleCallback):
        def _on_rollout_end(self) -> None:
            values.append((self.num_timesteps, self.model.initial_entropy))

    model.learn(run_config.steps, callback=Watch(model_factory.schedules_of(run_config), run_config.steps))
    env.close()
    assert values == [(steps, pytest.approx(1e-3 * (1 - steps / 160))) for steps in (32, 64, 96, 128, 160)]


@pytest.mark.slow
def test_custom_schedule_trains_and_resumes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "algos").mkdir()
    (tmp_path / "algos" / "custom.py").write_text(
        "from mygym.config.schedules import register_schedule\n\n\n"
        "@register_schedule('square')\n"
        "def square(progress: float, from_: float, to: float) -> float:\n"
        "    'Falls as a parabola.'\n"
        "    return to + (from_ - to) * (1 - progress) ** 2\n"
    )
    params = {"algo_params": {"learning_rate": {"schedule": "square", "from": 1e-2, "to": 1e-4}}}
    reference = mygym.train(merged(config("ppo", tmp_path / "whole"), params))
    run = stopped(merged(config("ppo", tmp_path / "stopped"), params), step=150)
    mygym.train(resume=run)
    assert differences(reference.path, run) == []
    assert mygym.load(run / "model.zip").model.lr_schedule(0.5) == 1e-4 + (1e-2 - 1e-4) * 0.25


class Forgetful(PPO):
    """Stores its parameter under another name."""

    def __init__(self, policy: Any, env: Any, courage: float = 0.1, **kwargs: Any) -> None:
        super().__init__(policy, env, **kwargs)
        self.bravery = courage


class Wilful(PPO):
    """Stores another value of its parameter."""

    def __init__(self, policy: Any, env: Any, courage: float = 0.1, **kwargs: Any) -> None:
        super().__init__(policy, env, **kwargs)
        self.courage = 2 * courage


@pytest.mark.parametrize("cls", [Forgetful, Wilful])
def test_schedule_of_a_value_that_is_not_stored_is_refused(cls: type, tmp_path: Path) -> None:
    register_algorithm("custom")(cls)
    params = merged(config("ppo", tmp_path), {"algo": "custom", "algo_params": {"courage": LINEAR}})
    with pytest.raises(ConfigError, match=rf"algo_params\.courage: .*{cls.__name__} does not keep it"):
        mygym.train(params)
    assert list(tmp_path.iterdir()) == []


def test_misspelt_schedule_leaves_nothing(tmp_path: Path) -> None:
    params = {"algo_params": {"learning_rate": LINEAR | {"schedule": "linaer"}}}
    with pytest.raises(ConfigError, match=r"algo_params\.learning_rate\.schedule: 'linaer'.*did you mean 'linear'"):
        mygym.train(merged(config("ppo", tmp_path), params))
    assert list(tmp_path.iterdir()) == []
