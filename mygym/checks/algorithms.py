"""The conformance suite of algorithms: constructs, trains, saves, repeats itself, resumes, and says how it fails."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray
from safetensors.numpy import load_file as load_tensors

from mygym import api
from mygym.checks.disturbance import Disturb, disturbed, fail, interrupt, with_observation, with_reward
from mygym.checks.suite import Check, CheckFailed, demand
from mygym.config import Resolved, config_hash, load_file, merged
from mygym.config.layers import flatten
from mygym.envs.robot_env import RobotEnv
from mygym.errors import ConfigError, InterruptedRunError, MygymError
from mygym.registry import algorithm, user_files
from mygym.runs import directory, factory
from mygym.runs.checkpoints.checkpoints import Checkpoints
from mygym.runs.policy import NORMALIZER, open_model, save_policy
from mygym.runs.resolve_config import resolve_config
from mygym.runs.result import Result

METHODS = ("learn", "save", "load", "predict")
SPOILT_AFTER = 150
"""Env steps after which environments go bad; of a shorter training half its steps."""

BAD: Mapping[str, tuple[Disturb, str]] = {
    "raises in step": (fail, "the environment's own mistake"),
    "returns rewards that are not a number": (with_reward(float("nan")), ""),
    "returns observations that are not a number": (with_observation(float("nan")), ""),
}
"""What a bad environment does, how, and what the error must have in it."""


def algorithm_checks(name: str, framework: str, steps: int, folder: Path, config: Mapping[str, Any]) -> Iterator[Check]:
    """The suite of one algorithm in one framework.

    Args:
        name: Of the algorithm.
        framework: Of the implementation.
        steps: Env steps of each training.
        folder: For the runs.
        config: Further values of the run's config.
    """
    subject = Subject(name, framework, steps, folder, config)
    yield Check("constructs", subject.constructs)
    yield Check("honest requirements", subject.is_honest, needs=("constructs",))
    yield Check("trains", subject.trains, needs=("honest requirements",))
    yield Check("save and load", subject.saves_and_loads, needs=("trains",))
    yield Check("result and config", subject.tells_everything, needs=("trains",))
    yield Check("deterministic", subject.repeats_itself, needs=("trains",))
    yield Check("resumes", subject.resumes, needs=("deterministic",))
    yield Check("survives a bad environment", subject.survives, needs=("trains",))


class Subject:
    """An algorithm under examination; what one check trained the next ones look at."""

    def __init__(self, name: str, framework: str, steps: int, folder: Path, config: Mapping[str, Any]) -> None:
        self.name, self.framework, self.steps, self.folder = name, framework, steps, folder
        self.more = config
        self.refused = ""
        """Why the class takes no observations as it was registered for, but takes others."""

    def config(self, folder: str, steps: int | None = None, **more: Any) -> dict[str, Any]:
        """Config of a run in a folder of its own: judged and saved as rarely as the checks allow."""
        steps = steps or self.steps
        quick = {
            "algo": self.name,
            "framework": self.framework,
            "steps": steps,
            "stop_at_success": None,
            "eval": {"every": steps, "episodes": 1, "final_episodes": 2},
            "checkpoint": {"every": max(steps // 3, 1), "keep": 2},
            "video": {"episodes": 0},
            "tensorboard": False,
            "logdir": str(self.folder / folder),
        }
        return merged(merged(quick, self.more), more)

    @cached_property
    def settled(self) -> Resolved:
        """The config of the run that the others are compared with."""
        return resolve_config(overrides=self.config("first"))

    @cached_property
    def first(self) -> Result:
        """The run that the others are compared with."""
        return api.train(self.settled)

    # The checks ---------------------------------------------------------------------------------------------------

    def constructs(self) -> None:
        """The class can be built, and acts; with other observations than it was registered for, if need be."""
        config = self.settled.config
        cls = algorithm(self.name, self.framework).combo()[0]
        missing = [method for method in METHODS if not callable(getattr(cls, method, None))]
        demand(not missing, f"{cls.__name__} has no {', '.join(missing)}")
        env = factory.make_vec_env(config)
        try:
            try:
                model = factory.build_model(config, env)
            except ConfigError as error:
                if not self._takes_other_observations():
                    raise
                self.refused = str(error)
                return
            save_policy(self.folder / "start.safetensors", model, None)
            actions, _ = model.predict(env.reset(), deterministic=True)
            wanted = (env.num_envs, *(env.action_space.shape or ()))
            demand(np.shape(actions) == wanted, f"predict gives actions of shape {np.shape(actions)}, not {wanted}")
            outside = [action.tolist() for action in actions if not env.action_space.contains(action)]
            demand(not outside, f"predict gives {outside[:1]}, which is not in {env.action_space}")
        finally:
            env.close()

    def is_honest(self) -> None:
        """It takes the observations, and the hindsight replay, that its registration says."""
        entry = algorithm(self.name, self.framework)
        says = "dictionaries" if entry.dict_observations else "flat observations"
        takes = "flat observations only" if entry.dict_observations else "dictionaries only"
        way_out = f"say dict_observations={not entry.dict_observations}, or mend its policy"
        why = f"says that it takes {says}, but takes {takes} ({entry.origin}): {self.refused}; {way_out}"
        demand(not self.refused, why)
        config = self.settled.config
        env = factory.make_vec_env(config)
        try:
            seen = isinstance(env.observation_space, spaces.Dict)
            demand(seen == entry.dict_observations, f"says that it takes {says}, and gets {env.observation_space}")
        finally:
            env.close()
        if entry.goal_relabelling:
            self._relabels()

    def trains(self) -> None:
        """A run comes to its end, and has changed the weights."""
        result = self.first
        demand(result.status == "done", f"the run is {result.status}: {result.error}")
        demand(result.steps >= self.steps, f"learn ended after {result.steps} of {self.steps} steps")
        start, end = _weights(self.folder / "start.safetensors"), _weights(result.path / directory.POLICY)
        demand(end, "the policy has no weights")
        demand(
            start.keys() != end.keys() or _first_difference(start, end),
            f"no weight of the policy has changed in {result.steps} steps; does it learn from more? --steps N",
        )

    def saves_and_loads(self) -> None:
        """What was saved acts the same wherever it is loaded."""
        run = self.first.path
        cls = factory.loadable(self.settled.config)
        observations = self._observations()
        policy = api.load(run)
        actions = _actions(policy, observations)
        opened: Any = open_model(run / directory.MODEL, cls, trust=True)
        demand(isinstance(opened.model, cls), f"{cls.__name__}.load gives a {type(opened.model).__name__}")
        said = {f"{cls.__name__}.load of model.zip": _actions(opened, observations)}
        opened.model.save(run / "again.zip")
        again = open_model(run / "again.zip", cls, trust=True)
        said[f"{cls.__name__}.save and load, once more,"] = _actions(again, observations)
        if cls.__module__.startswith(f"{user_files.PACKAGE}.") or self.settled.config.imports:
            said["mygym.load in another process"] = self._actions_elsewhere(observations)
        for way, others in said.items():
            away = float(np.abs(actions - others).max())
            demand(away == 0.0, f"{way} gives other actions than policy.safetensors, by up to {away:g}")

    def tells_everything(self) -> None:
        """result.json and config.yaml hold all that there is to say, in plain data."""
        result = self.first
        content = json.loads((result.path / directory.RESULT).read_text(encoding="utf-8"))
        demand(content == json.loads(json.dumps(result.to_json())), "result.json is not what train() returned")
        read = Result.read(result.path)
        demand(read is not None and read.to_json() == result.to_json(), "result.json cannot be read back")
        values = load_file(result.path / directory.CONFIG)
        again = resolve_config(values)
        demand(
            again.values() == values, f"config.yaml is settled to other values: {_other_keys(values, again.values())}"
        )
        through = json.loads(json.dumps(values))
        demand(resolve_config(through).values() == values, "the config is another after a way through JSON")
        digest = config_hash(again.values())
        demand(digest == result.config_hash, f"config.yaml has the hash {digest}, the run {result.config_hash}")

    def repeats_itself(self) -> None:
        """The config that the run has left, with its seed, gives the same weights, to the bit."""
        said = load_file(self.first.path / directory.CONFIG)
        second = api.train({**said, "logdir": str(self.folder / "second")})
        self._demand_same(self.first.path, second.path, "a second run, of config.yaml and its seed,")

    def resumes(self) -> None:
        """A run that was stopped between two rollouts, and went on, has the weights of one that was not."""
        reference, steps = self.first, self.steps
        run = self._stopped("stopped", steps)
        if run is None:  # its rollouts are longer than that
            steps = 2 * reference.steps
            reference = api.train(self.config("longer", steps))
            run = self._stopped("longer_stopped", steps)
        demand(run is not None, f"no checkpoint before step {2 * steps // 3}: rollouts of more than {steps // 3} steps")
        resumed = api.train(resume=run)
        self._demand_same(reference.path, resumed.path, "a run that was stopped and resumed")

    def survives(self) -> None:
        """A bad environment ends a run with one clear message and a result that says so."""
        step = min(SPOILT_AFTER, max(self.steps // 2, 1))
        for number, (fault, (disturb, words)) in enumerate(BAD.items()):
            logdir = self.folder / f"bad_{number}"
            who = f"an environment that {fault}"
            try:
                with disturbed(step, disturb):
                    api.train(self.config(logdir.name))
            except InterruptedRunError:
                raise CheckFailed(f"{who} does not end the run") from None
            except MygymError as error:
                result = Result.read(error.run) if error.run else None
                demand(result, f"{who} leaves no result.json: {error}")
                assert result is not None
                demand(
                    result.status in ("failed", "diverged") and result.error,
                    f"{who} ends a run that says of itself: {result.status}, {result.error}",
                )
                demand(words in str(error), f"{who} ends the run with a message that hides what it raised: {error}")
            else:
                raise CheckFailed(f"{who} does not end the run, whose result says that all went well")

    # What they are made of ----------------------------------------------------------------------------------------

    def _takes_other_observations(self) -> bool:
        """Whether the class can be built with flat observations, if it is said to take dictionaries, or the reverse."""
        config = self.settled.config.model_copy(update={"her": False})
        goal_env = not algorithm(self.name, self.framework).dict_observations
        from stable_baselines3.common.vec_env import DummyVecEnv

        env = DummyVecEnv([lambda: RobotEnv(config.task, goal_env=goal_env)])
        try:
            factory.build_model(config, env)
        except ConfigError:
            return False
        finally:
            env.close()
        return True

    def _relabels(self) -> None:
        """It has a replay buffer that relabels, and trains with it."""
        from stable_baselines3 import HerReplayBuffer

        config = self.settled.config
        asked: dict[str, Any] = {} if config.her else {"her": True, "reward": "sparse"}
        hindsight = resolve_config(overrides=self.config("hindsight", **asked)).config
        env = factory.make_vec_env(hindsight)
        try:
            buffer = getattr(factory.build_model(hindsight, env), "replay_buffer", None)
        finally:
            env.close()
        says = "says that it takes hindsight replay (goal_relabelling)"
        demand(isinstance(buffer, HerReplayBuffer), f"{says}, but its replay buffer is a {type(buffer).__name__}")
        if not config.her:
            needed = 3 * (hindsight.task_params.horizon or 1) * hindsight.n_envs
            api.train(self.config("hindsight", needed, **asked))

    def _observations(self) -> list[Any]:
        env = factory.make_env(self.settled.config)
        try:
            env.action_space.seed(0)
            found = [env.reset(seed=seed)[0] for seed in range(4)]
            return found + [env.step(env.action_space.sample())[0] for _ in range(4)]
        finally:
            env.close()

    def _actions_elsewhere(self, observations: list[Any]) -> NDArray[np.float32]:
        """What `mygym.load` of the first run does in a process of its own, which finds the class by itself."""
        said = [
            {key: value.tolist() for key, value in one.items()} if isinstance(one, dict) else one.tolist()
            for one in observations
        ]
        task = {"script": sys.argv[0], "imports": self.settled.config.imports, "run": str(self.first.path.resolve())}
        process = subprocess.run(  # noqa: S603  (ourselves)
            [sys.executable, "-c", _ELSEWHERE],
            input=json.dumps({**task, "observations": said}),
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            capture_output=True,
            text=True,
            check=False,
        )
        if process.returncode:
            last = (process.stderr.strip().splitlines() or ["nothing said"])[-1]
            raise CheckFailed(f"mygym.load fails in another process: {last}")
        return np.array(json.loads(process.stdout.splitlines()[-1]), dtype=np.float32)

    def _stopped(self, folder: str, steps: int) -> Path | None:
        """A run stopped after two thirds of its steps; None if there is no checkpoint from which it would go on."""
        try:
            with disturbed(2 * steps // 3, interrupt):
                api.train(self.config(folder, steps))
        except InterruptedRunError as error:
            newest = Checkpoints(error.run, keep=1).newest(lambda message: None) if error.run else None
            return error.run if newest is not None and newest.steps else None
        raise CheckFailed("it takes fewer steps of its environments than it counts, or catches KeyboardInterrupt")

    def _demand_same(self, one: Path, other: Path, who: str) -> None:
        first, second = _weights(one / directory.POLICY), _weights(other / directory.POLICY)
        where = _first_difference(first, second)
        demand(not where, f"{who} has other weights, the first of them in {where}")


_ELSEWHERE = """\
import json, sys
task = json.loads(sys.stdin.read())
sys.argv[0] = task["script"]
import numpy as np
import mygym
mygym.registry.user_files.import_modules(task["imports"])
policy = mygym.load(task["run"])
array = lambda values: np.array(values, dtype=np.float32)
said = [{k: array(v) for k, v in o.items()} if isinstance(o, dict) else array(o) for o in task["observations"]]
print(json.dumps([policy.predict(one, deterministic=True)[0].tolist() for one in said]))
"""


def _actions(policy: Any, observations: list[Any]) -> NDArray[np.float32]:
    return np.stack([policy.predict(observation, deterministic=True)[0] for observation in observations])


def _weights(file: Path) -> dict[str, NDArray[Any]]:
    """The tensors of a policy file, but for its normaliser's."""
    return {key: value for key, value in load_tensors(file).items() if not key.startswith(NORMALIZER)}


def _first_difference(one: Mapping[str, NDArray[Any]], other: Mapping[str, NDArray[Any]]) -> str:
    """Name of the first tensor that is not the same in both; empty if there is none."""
    names = [*one, *(key for key in other if key not in one)]
    different = (key for key in names if not np.array_equal(one.get(key, ()), other.get(key, ())))
    return next(different, "")


def _other_keys(one: Mapping[str, Any], other: Mapping[str, Any]) -> str:
    """Dotted names of what is not the same in two configs."""
    first, second = dict(flatten(one)), dict(flatten(other))
    return ", ".join(sorted(key for key in first.keys() | second.keys() if first.get(key) != second.get(key)))
