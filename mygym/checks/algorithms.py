"""Conformance suites in runs: algorithms, policies, strategies, samplers and callbacks."""

from __future__ import annotations

import contextlib
import copy
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from functools import cached_property, partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray
from safetensors.numpy import load_file as load_tensors
from stable_baselines3 import HerReplayBuffer
from stable_baselines3.common.vec_env import DummyVecEnv

from mygym import api
from mygym.checks.suite import LEARNS, Check, CheckFailed, demand
from mygym.config import Resolved, config_hash, merged
from mygym.config.layers import flatten
from mygym.config.loading import is_plain
from mygym.envs.batch_vec_env import BatchVecEnv
from mygym.envs.robot_env import RobotEnv
from mygym.errors import ConfigError, InterruptedRunError, MygymError, RegistryError, bad_value
from mygym.nested import map_arrays
from mygym.planning.plan import plan_of
from mygym.planning.resolve import resolve_config
from mygym.registry import algorithm, registry
from mygym.registry.signatures import parameters
from mygym.registry.user_files import PACKAGE
from mygym.reporting.settings import different_keys
from mygym.training import directory, env_factory, model_factory
from mygym.training.checkpoints.checkpoints import Checkpoints
from mygym.training.evaluation import evaluate_policy
from mygym.training.policy import NORMALIZER, save_policy
from mygym.training.result import Result

Fault = Callable[[Any], Any]
"""Function of the tuple that `step` returns; returns another tuple, or raises."""

MAX_STEPS = 20_000
"""Steps after the first fault until training is interrupted: an algorithm that catches every error would not end."""


@contextlib.contextmanager
def faulty(step: int, fault: Fault) -> Iterator[None]:
    """Context manager that applies a fault from the `step`-th step on, counted over all training environments.

    Environments for evaluation are unaffected: they can render, training environments cannot.
    """
    original, of_batch, steps = RobotEnv.step, BatchVecEnv.step_wait, 0

    def applied(returned: Any, count: int) -> Any:
        nonlocal steps
        steps += count
        if steps >= step + MAX_STEPS:
            raise KeyboardInterrupt
        return fault(returned) if steps >= step else returned

    def faulty_step(self: RobotEnv, action: Any) -> Any:
        returned = original(self, action)
        return returned if self.render_mode is not None else applied(returned, 1)

    def faulty_batch(self: BatchVecEnv) -> Any:
        observations, rewards, *others = applied(of_batch(self), self.num_envs)
        return observations, np.full(self.num_envs, rewards, dtype=np.float32), *others

    with patch.object(RobotEnv, "step", faulty_step), patch.object(BatchVecEnv, "step_wait", faulty_batch):
        yield


def interrupt(returned: Any) -> Any:
    """Interrupt the run immediately, as a second Ctrl-C does."""
    raise KeyboardInterrupt


def fail(returned: Any) -> Any:
    """Raise, as an environment with a bug does."""
    raise ValueError("the environment's own mistake")


def spoil_observation(returned: Any) -> Any:
    """Fill the observation with numbers that are none."""
    map_arrays(lambda array: array.fill(np.nan), returned[0])
    return returned


_LOAD_AND_PREDICT = """\
import json, sys
task = json.loads(sys.stdin.read())
sys.argv[0] = task["script"]
import numpy as np
import mygym
from mygym.registry.user_files import import_modules
import_modules(task["imports"])
policy = mygym.load(task["run"])
array = lambda values: np.array(values, dtype=np.float32)
observations = [{k: array(v) for k, v in o.items()} if isinstance(o, dict) else array(o) for o in task["observations"]]
print(json.dumps([policy.predict(o, deterministic=True)[0].tolist() for o in observations]))
"""


def actions_of(policy: Any, observations: Sequence[Any]) -> NDArray[np.float32]:
    """Return the actions of a policy for observations of single environments."""
    return np.stack([policy.predict(observation, deterministic=True)[0] for observation in observations])


def weights_of(file: Path) -> dict[str, NDArray[Any]]:
    """Return the tensors of a policy file, without the tensors of its normaliser."""
    return {key: value for key, value in load_tensors(file).items() if not key.startswith(NORMALIZER)}


def first_difference(first: Mapping[str, NDArray[Any]], second: Mapping[str, NDArray[Any]]) -> str:
    """Return the name of the first tensor that differs; empty if all are equal."""
    names = [*first, *(key for key in second if key not in first)]
    different = (key for key in names if not np.array_equal(first.get(key, ()), second.get(key, ())))
    return next(different, "")


def actions_in_another_process(run: Path, imports: Sequence[str], observations: Sequence[Any]) -> NDArray[np.float32]:
    """Return the actions of a run's policy, loaded in another process, which must import the class by itself.

    `imports` are modules that the run's config imports; the observations are those of single environments.

    Raises:
        CheckFailed: The other process cannot load the policy.
    """
    plain = [map_arrays(lambda array: array.tolist(), seen) for seen in observations]
    task = {"script": sys.argv[0], "imports": list(imports), "run": str(run.resolve())}
    process = subprocess.run(  # noqa: S603  (this Python)
        [sys.executable, "-c", _LOAD_AND_PREDICT],
        input=json.dumps({**task, "observations": plain}),
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        capture_output=True,
        text=True,
        check=False,
    )
    if process.returncode:
        last = (process.stderr.strip().splitlines() or ["no message"])[-1]
        raise CheckFailed(f"mygym.load fails in another process: {last}")
    return np.array(json.loads(process.stdout.splitlines()[-1]), dtype=np.float32)


def demand_same_weights(first: Path, second: Path, subject: str) -> None:
    """Raise `CheckFailed`, with `subject`, unless two runs have the same weights, to the bit."""
    name = first_difference(weights_of(first / directory.POLICY), weights_of(second / directory.POLICY))
    demand(not name, f"{subject} has other weights, the first of them in {name}")


METHODS = ("learn", "save", "load", "predict")
SUCCESS = 0.9
"""Success rate of two evaluations in a row at which `reach` counts as learned."""
SLOWER = 1.5
"""Largest ratio of the env steps to those of the parent; two seeds of an algorithm differ by as much."""
FAULT_STEP = 150
"""Env step of the first fault; half the steps of a shorter training."""

FAULTS: Mapping[str, tuple[Fault, str]] = {
    "raises in step": (fail, "the environment's own mistake"),
    "returns rewards that are not a number": (lambda returned: (returned[0], float("nan"), *returned[2:]), ""),
    "returns observations that are not a number": (spoil_observation, ""),
}
"""Behaviour of a faulty environment → the fault, and text that the error must contain."""


def algorithm_checks(name: str, framework: str, steps: int, folder: Path, config: Mapping[str, Any]) -> Iterator[Check]:
    """Yield the checks of an algorithm in a framework, in runs of `steps` env steps with further config values."""
    subject = Subject(name, framework, steps, folder, config)
    yield from _training_checks(subject)
    yield Check("resumes", subject.resumes, needs=("deterministic",))
    yield Check("survives a bad environment", subject.survives, needs=("trains",))
    if algorithm(name, framework).parent:
        yield Check(LEARNS, subject.learns_as_its_parent, needs=("trains",))


class Subject:
    """An algorithm under test; later checks use the runs of earlier checks."""

    def __init__(self, name: str, framework: str, steps: int, folder: Path, config: Mapping[str, Any]) -> None:
        self.name, self.framework, self.steps, self.folder = name, framework, steps, folder
        self.overrides = config
        self.refused = ""
        """Error for the observations of the registration, if the class takes only the other kind; else empty."""

    def config(self, folder: str, steps: int | None = None, **more: Any) -> dict[str, Any]:
        """Return the config of a run in a subfolder, with as few evaluations and checkpoints as the checks allow."""
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
        return merged(merged(quick, self.overrides), more)

    @cached_property
    def resolved(self) -> Resolved:
        """Config of the reference run."""
        return resolve_config(overrides=self.config("first"))

    @cached_property
    def first(self) -> Result:
        """Result of the reference run."""
        return api.train(self.resolved)

    # The checks ---------------------------------------------------------------------------------------------------

    def constructs(self) -> None:
        """The class can be built and acts, if necessary with the other kind of observations."""
        config = self.resolved.config
        cls = algorithm(self.name, self.framework).combo()[0]
        missing = [method for method in METHODS if not callable(getattr(cls, method, None))]
        demand(not missing, f"{cls.__name__} has no {', '.join(missing)}")
        with closing(env_factory.make_vec_env(config)) as env:
            try:
                model = model_factory.build_model(config, env)
            except ConfigError as error:
                if not self._takes_other_observations():
                    raise
                self.refused = str(error)
                return
            save_policy(self.folder / "start.safetensors", model, None)
            actions, _ = model.predict(env.reset(), deterministic=True)
            shape = (env.num_envs, *(env.action_space.shape or ()))
            demand(np.shape(actions) == shape, f"predict gives actions of shape {np.shape(actions)}, not {shape}")
            outside = [action.tolist() for action in actions if not env.action_space.contains(action)]
            demand(not outside, f"predict gives {outside[:1]}, which is not in {env.action_space}")

    def meets_its_registration(self) -> None:
        """The class takes the observations and the hindsight replay of its registration."""
        entry = algorithm(self.name, self.framework)
        registered = "dictionaries" if entry.dict_observations else "flat observations"
        takes = "flat observations only" if entry.dict_observations else "dictionaries only"
        remedy = f"register it with dict_observations={not entry.dict_observations}, or correct its policy"
        message = f"is registered for {registered}, but takes {takes} ({entry.origin}): {self.refused}; {remedy}"
        demand(not self.refused, message)
        config = self.resolved.config
        with closing(env_factory.make_vec_env(config)) as env:
            gets_dict = isinstance(env.observation_space, spaces.Dict)
            message = f"is registered for {registered}, but gets {env.observation_space}"
            demand(gets_dict == entry.dict_observations, message)
        if entry.goal_relabelling:
            self._relabels()

    def trains(self) -> None:
        """A run ends normally and has changed the weights."""
        result = self.first
        demand(result.status == "done", f"the run is {result.status}: {result.error}")
        demand(result.steps >= self.steps, f"learn ended after {result.steps} of {self.steps} steps")
        start, end = weights_of(self.folder / "start.safetensors"), weights_of(result.path / directory.POLICY)
        demand(end, "the policy has no weights")
        demand(
            start.keys() != end.keys() or first_difference(start, end),
            f"no weight of the policy has changed in {result.steps} steps; does it need more steps to learn? --steps N",
        )

    def saves_and_loads(self) -> None:
        """Saved models give the same actions in this process and in another process."""
        run = self.first.path
        cls = plan_of(self.resolved.config).schema.cls
        observations = self._observations()
        policy = api.load(run)
        actions = actions_of(policy, observations)
        opened = api.load(run / directory.MODEL, trust=True)
        demand(isinstance(opened.model, cls), f"{cls.__name__}.load gives a {type(opened.model).__name__}")
        loaded = {f"{cls.__name__}.load of model.zip": actions_of(opened, observations)}
        opened.model.save(run / "again.zip")
        again = api.load(run / "again.zip", trust=True)
        loaded[f"{cls.__name__}.save and load, once more,"] = actions_of(again, observations)
        if cls.__module__.startswith(f"{PACKAGE}.") or self.resolved.config.imports:
            loaded["mygym.load in another process"] = actions_in_another_process(
                run, self.resolved.config.imports, observations
            )
        for way, loaded_actions in loaded.items():
            difference = float(np.abs(actions - loaded_actions).max())
            demand(difference == 0.0, f"{way} gives other actions than policy.safetensors, by up to {difference:g}")

    def records_everything(self) -> None:
        """result.json and config.yaml are complete, and plain data."""
        result = self.first
        content = json.loads((result.path / directory.RESULT).read_text(encoding="utf-8"))
        demand(content == json.loads(json.dumps(result.to_json())), "result.json differs from the result of train()")
        stored = Result.read(result.path)
        demand(stored is not None and stored.to_json() == result.to_json(), "result.json cannot be read back")
        values = directory.saved_config(result.path)
        again = resolve_config(values)
        changed = ", ".join(different_keys(dict(flatten(values)), dict(flatten(again.values()))))
        demand(again.values() == values, f"config.yaml resolves to other values: {changed}")
        through_json = json.loads(json.dumps(values))
        demand(resolve_config(through_json).values() == values, "the config changes in a round trip through JSON")
        digest = config_hash(again.values())
        demand(digest == result.config_hash, f"config.yaml has the hash {digest}, the run has {result.config_hash}")

    def repeats_exactly(self) -> None:
        """The stored config, with its seed, gives the same weights, to the bit."""
        stored = directory.saved_config(self.first.path)
        second = api.train({**stored, "logdir": str(self.folder / "second")})
        demand_same_weights(self.first.path, second.path, "a second run, of config.yaml and its seed,")

    def resumes(self) -> None:
        """A run that was stopped between two rollouts and resumed has the weights of an uninterrupted run."""
        reference, steps = self.first, self.steps
        run = self._stopped("stopped", steps)
        if run is None:  # its rollouts are longer
            steps = 2 * reference.steps
            reference = api.train(self.config("longer", steps))
            run = self._stopped("longer_stopped", steps)
        demand(run is not None, f"no checkpoint before step {2 * steps // 3}: rollouts of more than {steps // 3} steps")
        resumed = api.train(resume=run)
        demand_same_weights(reference.path, resumed.path, "a run that was stopped and resumed")

    def survives(self) -> None:
        """A faulty environment ends a run with a clear message, which the result contains as well."""
        step = min(FAULT_STEP, max(self.steps // 2, 1))
        for number, (behaviour, (fault, text)) in enumerate(FAULTS.items()):
            logdir = self.folder / f"faulty_{number}"
            subject = f"an environment that {behaviour}"
            try:
                with faulty(step, fault):
                    api.train(self.config(logdir.name))
            except InterruptedRunError:
                raise CheckFailed(f"{subject} does not end the run") from None
            except MygymError as error:
                result = Result.read(error.run) if error.run else None
                demand(result, f"{subject} leaves no result.json: {error}")
                assert result is not None
                failed = result.status in ("failed", "diverged") and result.error
                demand(failed, f"{subject} ends a run with the result {result.status}, {result.error}")
                demand(text in str(error), f"{subject} ends the run with a message that hides its error: {error}")
            else:
                raise CheckFailed(f"{subject} does not end the run, and its result has no error")

    def learns_as_its_parent(self) -> str:
        """With default settings, `reach` is learned in at most `SLOWER` times the env steps of the parent."""
        parent = algorithm(self.name, self.framework).parent
        kept = {key: self.overrides[key] for key in ("imports",) if key in self.overrides}
        config = {**kept, "framework": self.framework, "stop_at_success": SUCCESS, "video": {"episodes": 0}}
        config |= {"tensorboard": False, "logdir": str(self.folder / "learning")}
        reference = api.train({**config, "algo": parent})
        demand(_learned(reference), f"the parent {parent} does not learn reach in {reference.steps:,} steps")
        limit = int(SLOWER * reference.steps) + resolve_config(overrides={**config, "algo": parent}).config.eval.every
        result = api.train({**config, "algo": self.name, "steps": limit})
        rate = result.evaluations[-1]["success_rate"]
        message = f"has {rate:.0%} success on reach after {result.steps:,} steps; {parent} learns it in"
        demand(_learned(result), f"{message} {reference.steps:,}")
        return f"reach in {result.steps:,} steps, {parent} in {reference.steps:,}"

    # Helpers -----------------------------------------------------------------------------------------------------

    def _takes_other_observations(self) -> bool:
        """Whether the class can be built with the kind of observations for which it is not registered."""
        config = self.resolved.config.model_copy(update={"her": False})
        goal_env = not algorithm(self.name, self.framework).dict_observations

        with closing(DummyVecEnv([lambda: RobotEnv(config.task, goal_env=goal_env)])) as env:
            try:
                model_factory.build_model(config, env)
            except ConfigError:
                return False
        return True

    def _relabels(self) -> None:
        """The class trains with a replay buffer that relabels goals."""
        config = self.resolved.config
        overrides: dict[str, Any] = {} if config.her else {"her": True, "reward": "sparse"}
        hindsight = resolve_config(overrides=self.config("hindsight", **overrides)).config
        with closing(env_factory.make_vec_env(hindsight)) as env:
            buffer = getattr(model_factory.build_model(hindsight, env), "replay_buffer", None)
        message = (
            f"is registered with goal_relabelling, but its replay buffer is a {type(buffer).__name__}; "
            "register it with goal_relabelling=False"
        )
        demand(isinstance(buffer, HerReplayBuffer), message)
        if not config.her:
            steps = 3 * (hindsight.task_params.horizon or 1) * hindsight.n_envs
            api.train(self.config("hindsight", steps, **overrides))

    def _observations(self) -> list[Any]:
        with closing(env_factory.make_env(self.resolved.config)) as env:
            env.action_space.seed(0)
            at_reset = [env.reset(seed=seed)[0] for seed in range(4)]
            return at_reset + [env.step(env.action_space.sample())[0] for _ in range(4)]

    def _stopped(self, folder: str, steps: int) -> Path | None:
        """Return a run that was stopped after two thirds of its steps; None if it has no checkpoint to resume from."""
        try:
            with faulty(2 * steps // 3, interrupt):
                api.train(self.config(folder, steps))
        except InterruptedRunError as error:
            newest = Checkpoints(error.run, keep=1).newest(lambda message: None) if error.run else None
            return error.run if newest is not None and newest.steps else None
        raise CheckFailed("it takes fewer env steps than it counts, or catches KeyboardInterrupt")


def _learned(result: Result) -> bool:
    """Return whether the last evaluations have reached the success rate that ends a run."""
    return all(record["success_rate"] >= SUCCESS for record in result.evaluations[-2:])


EPISODES = 8


def policy_checks(name: str, framework: str, steps: int, folder: Path, config: Mapping[str, Any]) -> Iterator[Check]:
    """Yield the checks of a policy, which the key `algo` of the config trains."""
    entry = registry("policy").get(name)
    if not entry.frameworks and not isinstance(entry.load(), Mapping):
        yield from _acting_checks(entry.load())
        return
    chosen = {"algo": trainer(entry.load_for(framework), framework), "algo_params": {"policy": name}}
    complete = merged(chosen, config)
    yield from _training_checks(Subject(complete["algo"], framework, steps, folder, complete))


def _training_checks(subject: Subject) -> Iterator[Check]:
    """Yield the checks that algorithms and the policies that they train have in common."""
    yield Check("constructs", subject.constructs)
    yield Check("honest requirements", subject.meets_its_registration, needs=("constructs",))
    yield Check("trains", subject.trains, needs=("honest requirements",))
    yield Check("save and load", subject.saves_and_loads, needs=("trains",))
    yield Check("result and config", subject.records_everything, needs=("trains",))
    yield Check("deterministic", subject.repeats_exactly, needs=("trains",))


def trainer(policy: Any, framework: str) -> str:
    """Return the algorithm whose policy is the nearest base class of a policy class; `ppo` of several algorithms.

    Raises:
        RegistryError: No algorithm has a policy that is a base class.
    """
    candidates: list[tuple[int, bool, str]] = []
    for entry in registry("algorithm"):
        try:
            cls = entry.load_for(framework).combo()[0]
        except RegistryError:  # not in this framework, or its package is missing
            continue
        bases = [base for base in set(cls.policy_aliases.values()) if base in policy.__mro__]
        if bases:
            candidates.append((min(map(policy.__mro__.index, bases)), entry.name != "ppo", entry.name))
    if not candidates:
        allowed = f"a subclass of a policy of an algorithm of {framework}"
        raise RegistryError(bad_value("policy", policy.__name__, allowed, "has no algorithm that trains it"))
    return min(candidates)[2]


def _acting_checks(cls: Any) -> Iterator[Check]:
    def acts() -> None:
        with contextlib.ExitStack() as stack:
            envs = [stack.enter_context(closing(api.make_env({}))) for _ in range(2)]
            policy = cls(envs, 0)
            singles: list[Any] = [env.reset(seed=seed)[0] for seed, env in enumerate(envs)]
            observation = {key: np.stack([single[key] for single in singles]) for key in singles[0]}
            before = copy.deepcopy(observation)
            actions, _ = policy.predict(observation, None, np.ones(2, dtype=bool), deterministic=True)
            shape, space = (2, *(envs[0].action_space.shape or ())), envs[0].action_space
            demand(np.shape(actions) == shape, f"predict gives actions of shape {np.shape(actions)}, not {shape}")
            for action in actions:
                demand(space.contains(action), f"predict gives {action!r}, not in {space}")
            same = all(np.array_equal(before[key], observation[key]) for key in before)
            demand(same, "predict changes the observation that it gets")

    def repeats_exactly() -> None:
        with contextlib.ExitStack() as stack:
            envs = [stack.enter_context(closing(api.make_env({}))) for _ in range(4)]
            first, second = (evaluate_policy(cls(envs, 7), envs, list(range(EPISODES))) for _ in range(2))
        demand(first == second, "the same seed gives other episodes the second time")

    yield Check("acts", acts)
    yield Check("deterministic", repeats_exactly, needs=("acts",))


ALGORITHM = "ppo"
"""Default algorithm of the runs."""


WITH: Mapping[str, Callable[[str], dict[str, Any]]] = {
    "strategy": lambda name: {"strategy": name},
    "sampler": lambda name: {"strategy": "mixture", "strategy_params": {"candidates": 2, "tries": 1, "sampler": name}},
    "callback": lambda name: {"callbacks": [name]},
}
"""Kind that takes part in trainings → function from the name of a component to the config of its runs."""


def _checks_in_runs(
    kind: str, name: str, framework: str, steps: int, folder: Path, config: Mapping[str, Any]
) -> Iterator[Check]:
    """Yield the checks of a component that takes part in trainings."""
    run = merged(WITH[kind](name), config)
    subject = Subject(run.get("algo", ALGORITHM), framework, steps, folder, run)
    yield Check("parameters", lambda: _documents_its_parameters(kind, name))
    yield Check("constructs", subject.constructs, needs=("parameters",))
    yield Check("trains", subject.trains, needs=("constructs",))
    yield Check("result and config", subject.records_everything, needs=("trains",))
    yield Check("deterministic", subject.repeats_exactly, needs=("trains",))
    yield Check("resumes", subject.resumes, needs=("deterministic",))
    yield Check("survives a bad environment", subject.survives, needs=("trains",))


strategy_checks, sampler_checks, callback_checks = (partial(_checks_in_runs, kind) for kind in WITH)


def _documents_its_parameters(kind: str, name: str) -> None:
    """Each constructor parameter is keyword-only, can be written in a config, and is documented."""
    known = parameters(registry(kind).get(name).load(), leave_out=("verbose",))  # of SB3's callbacks
    for parameter in known.values():
        key, plain = parameter.name, parameter.required or is_plain(parameter.default)
        demand(parameter.keyword_only, f"{key} can be given by position; write * in front of it")
        demand(plain, f"the default of {key} cannot be written in a config")
        demand(parameter.help, f"{key} is not in the docstring's Args")
