"""Tests of the life cycle of strategies."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.vec_env import VecEnv, VecNormalize

import mygym
from benchmarks.kills import differences
from mygym.errors import ConfigError, MygymError, RegistryError, RunError
from mygym.planning.plan import plan_from_python
from mygym.registry import registry
from mygym.strategies import Requirement, Strategy, register_strategy
from mygym.training.checkpoints.serialization import can_be_saved
from mygym.training.policy import read_policy
from mygym.training.result import Result
from tests.components import slow_except
from tests.training.test_resuming import config, stopped

CALLS: list[str] = []


class Recorded(Strategy):
    """Records its calls.

    Args:
        extra: A number.
    """

    def __init__(self, *, extra: int = 3) -> None:
        self.extra = extra

    def requires(self) -> tuple[str, ...]:
        CALLS.append("requires")
        return ()

    def prepare_env(self) -> None:
        CALLS.append("prepare_env")

    def prepare_model(self) -> None:
        CALLS.append("prepare_model")

    def prepare_data(self) -> None:
        CALLS.append("prepare_data")

    def begin_iteration(self) -> None:
        CALLS.append(f"begin_iteration {self.num_timesteps}")

    def on_episode(self, variant: int, success: bool, total_reward: float) -> None:
        CALLS.append("on_episode")

    def on_evaluation(self, record: Any) -> None:
        CALLS.append(f"on_evaluation {record['steps']}")


class BeforeGradients(Recorded):
    phase = "gradient"


@pytest.fixture(autouse=True)
def calls() -> None:
    CALLS.clear()


def begun() -> list[int]:
    """Return the env steps at which iterations began."""
    return [int(call.split()[1]) for call in CALLS if call.startswith("begin_iteration")]


def test_the_order_of_calls(tmp_path: Path) -> None:
    register_strategy("recorded")(Recorded)
    mygym.train(config("ppo", tmp_path, strategy="recorded", steps=96))
    assert CALLS[:5] == ["requires", "prepare_env", "prepare_model", "prepare_data", "on_evaluation 0"]
    assert begun() == [0, 32, 64]
    assert "on_episode" in CALLS
    assert CALLS.index("begin_iteration 64") > CALLS.index("on_episode") > CALLS.index("begin_iteration 0")


@pytest.mark.parametrize(("algo", "steps"), [("ppo", [32, 64]), ("ppo_runner", [32, 64])])
def test_phase_gradient_begins_an_iteration_before_gradient_steps(algo: str, steps: list[int], tmp_path: Path) -> None:
    register_strategy("before_gradients")(BeforeGradients)
    mygym.train(config(algo, tmp_path, strategy="before_gradients", steps=64))
    assert begun() == steps


@pytest.mark.parametrize("phase", ["rollout", "gradient"])
def test_an_exception_in_begin_iteration_ends_the_run_with_a_checkpoint(phase: str, tmp_path: Path) -> None:
    class Failing(Strategy):
        def begin_iteration(self) -> None:
            if self.num_timesteps >= 64:
                raise LookupError("not available")

    Failing.phase = phase  # type: ignore[assignment]
    register_strategy("failing")(Failing)
    with pytest.raises(RunError, match="LookupError: not available") as error:
        mygym.train(config("ppo", tmp_path, strategy="failing", checkpoint={"every": 10_000}))
    run = error.value.run
    assert run is not None
    assert Result.read(run).status == "failed"  # type: ignore[union-attr]
    assert [path.name for path in (run / "checkpoints").glob("step_*")] == ["step_0000000064"]
    assert "in begin_iteration" in (run / "traceback.txt").read_text()


@pytest.mark.parametrize("normalize", [False, True])
def test_a_strategy_may_normalise_rewards(normalize: bool, tmp_path: Path) -> None:
    class OfRewards(Strategy):
        def wrap_env(self, env: VecEnv) -> VecEnv:
            return VecNormalize(env, norm_obs=False)

    register_strategy("of_rewards")(OfRewards)
    result = mygym.train(config("ppo", tmp_path, strategy="of_rewards", steps=64, normalize=normalize))
    assert mygym.train({"steps": 96}, resume=result.path).steps == 96
    assert mygym.evaluate(result.path, episodes=1).episodes
    assert (read_policy(result.path / "policy.safetensors")[1] is not None) == normalize


CHANGING: list[tuple[str, str, dict[str, Any]]] = [
    ("curriculum", "sac", {"window": 2, "advance_at": 0.1, "go_back_at": 0.0, "patience": 60, "rehearsal": 0.3}),
    ("curriculum", "ppo", {"levels": [{"task_params": {"tolerance": 0.1}}, {"reward": "dense"}], "window": 2}),
    ("multitask", "ppo", {"tasks": ["reach", "AG"], "sampler": "adaptive"}),
    ("multitask", "sac", {"tasks": ["reach", "AG"], "sampler": "differentiable", "identify": "stages"}),
    ("mixture", "ppo", {"by": "sampler", "sampler": "differentiable", "candidates": 3, "units": "blocks", "tries": 1}),
    ("mixture", "sac", {"by": "sampler", "sampler": "fair", "candidates": 2}),
    ("mixture", "ppo", {"protocol": "gumbel_softmax", "candidates": 2, "balance": 0.1}),
    ("mixture", "td3", {"protocol": "gumbel_softmax", "candidates": 2, "balance": 0.1}),
    ("demos", "sac", {"episodes": 2, "warm_start": 3, "weight": {"schedule": "linear", "from": 1, "to": 0}}),
    ("distill", "ppo", {}),
    ("ewc", "ppo", {"tasks": ["reach", "AG", "push"], "weight": 100.0}),
    ("reptile", "ppo", {"tasks": ["reach", "AG"], "inner": 2}),
    ("ewc", "td3", {"tasks": ["reach", {"task": "reach", "task_params": {"tolerance": 0.1}}]}),
]


ATTRIBUTES = [case for case in CHANGING if case[0] not in ("demos", "distill")]
SEVERAL = [CHANGING[number] for number in (0, 2, 4, 10, 11)]
"""A case for each strategy with a state."""
QUICK = [CHANGING[number] for number in (0, 4)]
"""A strategy with a state of its own, and one that changes the networks. For `demos` and `distill` see their tests,
for joined strategies test_joined.py."""


@pytest.mark.parametrize(("strategy", "algo", "params"), slow_except(CHANGING, QUICK.__contains__), ids=str)
def test_a_resumed_run_equals_an_uninterrupted_run(
    strategy: str, algo: str, params: dict[str, Any], tmp_path: Path
) -> None:
    overrides = {"strategy": strategy, "strategy_params": params, "steps": 200}
    if algo in ("sac", "td3"):
        # hindsight over the tasks of `multitask` begins after whole episodes, which are too long for this test
        overrides |= {"her": strategy != "multitask" and algo == "sac", "algo_params": {"learning_starts": 42}}
    reference = mygym.train(config(algo, tmp_path / "whole", **overrides))
    run = stopped(config(algo, tmp_path / "stopped", **overrides), step=110)
    mygym.train(resume=run)
    assert differences(reference.path, run) == []


class Snapshots(BaseCallback):
    """Copies the attributes of strategies and of their samplers when training begins and ends."""

    def __init__(self, strategies: Any) -> None:
        super().__init__()
        self.strategies, self.taken = strategies, []

    def take(self) -> None:
        samplers = [getattr(strategy, "sampler", None) for strategy in self.strategies]
        owners = [owner for owner in (*self.strategies, *samplers) if hasattr(owner, "__dict__")]
        plain = [{name: value for name, value in vars(owner).items() if can_be_saved(value)} for owner in owners]
        self.taken.append(copy.deepcopy(plain))

    def _on_training_start(self) -> None:
        self.take()

    def _on_step(self) -> bool:
        return True

    def _on_training_end(self) -> None:
        self.take()
        self.states = [s.state_dict() for s in self.strategies]


def equal(first: Any, second: Any) -> bool:
    return bool(np.array_equal(np.asarray(first, object), np.asarray(second, object)))


@pytest.mark.parametrize(("strategy", "algo", "params"), slow_except(ATTRIBUTES, SEVERAL.__contains__), ids=str)
def test_every_attribute_that_training_changes_is_in_checkpoints(
    strategy: str, algo: str, params: dict[str, Any], tmp_path: Path
) -> None:
    off_policy = {"her": False, "algo_params": {"learning_starts": 42}} if algo in ("sac", "td3") else {}
    settings = config(algo, tmp_path, strategy=strategy, strategy_params=params, steps=160, **off_policy)
    plan = plan_from_python(settings)
    snapshots = Snapshots(plan.strategies)
    mygym.train(plan, callbacks=[snapshots])
    (state,) = snapshots.states
    held = {*state, *state.get("sampler", {})}
    changed = set()
    for before, after in zip(*snapshots.taken, strict=True):
        changed |= {name for name in after if not equal(before.get(name), after[name])}
    assert changed
    assert changed <= held


def test_a_passive_strategy_changes_nothing(tmp_path: Path) -> None:
    register_strategy("recorded")(Recorded)
    quick = {"steps": 100, "algo_params": {"learning_starts": 42}}
    runs = [mygym.train(config("sac", tmp_path / name, strategy=name, **quick)) for name in ("standard", "recorded")]
    weights = [(run.path / "policy.safetensors").read_bytes() for run in runs]
    assert weights[0] == weights[1]


def test_requirements_are_checked_before_anything_is_written(tmp_path: Path) -> None:
    class Demanding(Strategy):
        required: ClassVar[str | Requirement] = "replay_buffer"

        def requires(self) -> tuple[str | Requirement, ...]:
            return (self.required,)

    register_strategy("demanding")(Demanding)
    with pytest.raises(ConfigError, match="requires replay buffer; allowed: an off-policy algorithm"):
        mygym.train(config("ppo", tmp_path, strategy="demanding"))
    Demanding.required = "replay_bufer"
    with pytest.raises(ConfigError, match="did you mean 'replay_buffer'"):
        mygym.train(config("ppo", tmp_path, strategy="demanding"))
    Demanding.required = Requirement("the algorithm sac", lambda self: self.config.algo == "sac", "--algo sac")
    with pytest.raises(ConfigError, match=r"strategy: 'demanding' .*allowed: --algo sac$"):
        mygym.train(config("ppo", tmp_path, strategy="demanding"))
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("params", "message"),
    [({"extar": 1}, "did you mean 'extra'"), ({"extra": "many"}, "a whole number"), ({"extra": None}, "extra")],
)
def test_parameters_are_checked(params: dict[str, Any], message: str, tmp_path: Path) -> None:
    register_strategy("recorded")(Recorded)
    with pytest.raises(ConfigError, match=message):
        mygym.train(config("ppo", tmp_path, strategy="recorded", strategy_params=params))


def test_classes_other_than_strategies_are_refused() -> None:
    with pytest.raises(RegistryError, match="a subclass of Strategy"):
        register_strategy("odd")(int)


@pytest.mark.parametrize(
    ("method", "message"),
    [
        ("def get_strategy_name(self): ...", r"'get_strategy_name' .* Odd that is never called .*allowed: @register_"),
        ("def prepare_dataset(self, dataset, tokenizer, config): ...", r"'prepare_dataset' .*: prepare_data\(self\)"),
        ("def get_required_dataset_fields(self): ...", r"'get_required_dataset_fields' .*allowed: requires\(self\)"),
        (
            "def prepare_model(self, model, config): ...",
            r"'prepare_model\(self, model, config\)' .*allowed: prepare_model\(self\), with self\.model, self\.config$",
        ),
        (
            "def on_episode(self, success): ...",
            r"'on_episode\(self, success\)' .*variant, success, total_reward\)$",
        ),
        ("def variants(self): ...", r"'variants\(self\)' .*allowed: variants\(self, config\)$"),
    ],
)
def test_methods_that_do_not_fit_are_refused_by_name(method: str, message: str) -> None:
    namespace: dict[str, Any] = {"Strategy": Strategy}
    exec(f"class Odd(Strategy):\n    {method}", namespace)
    with pytest.raises(RegistryError, match=message):
        register_strategy("odd")(namespace["Odd"])
    assert "odd" not in registry("strategy")


@pytest.mark.parametrize("method", ["prepare_model", "prepare_data"])
def test_a_model_or_dataset_that_nothing_would_use_is_refused(method: str, tmp_path: Path) -> None:
    register_strategy("returning")(type("Returning", (Strategy,), {method: lambda self: copy.copy(self.model)}))
    with pytest.raises(ConfigError, match=rf"returning\.{method}: 'PPO' is returned by Returning.*allowed: None;"):
        mygym.train(config("ppo", tmp_path, strategy="returning"))
    assert not list(tmp_path.iterdir())


def test_the_model_of_the_run_may_be_returned(tmp_path: Path) -> None:
    register_strategy("same")(type("Same", (Strategy,), {"prepare_model": lambda self: self.model}))
    assert mygym.train(config("ppo", tmp_path, strategy="same")).status == "done"


def test_a_trainer_that_is_not_a_function_is_refused(tmp_path: Path) -> None:
    class Trainer:
        def train(self) -> None: ...

    register_strategy("with_object")(type("Odd", (Strategy,), {"create_trainer": lambda self, callbacks: Trainer()}))
    with pytest.raises(ConfigError, match=r"with_object\.create_trainer: 'Trainer' .*Odd.*such as trainer\.train"):
        mygym.train(config("ppo", tmp_path, strategy="with_object"))


@pytest.mark.parametrize(
    ("method", "result", "message"),
    [
        ("run_defaults", None, r"strategy Odd\.run_defaults: result: 'None' .*allowed: a mapping"),
        ("run_defaults", {"stps": 5}, r"^stps: .*strategy odd.*'steps'"),
        ("variants", "reach", r"strategy Odd\.variants: result: 'str' .*allowed: a sequence"),
        ("variants", (), r"^strategy odd: \[\] are no variants"),
        ("policy_class", 3, r"^strategy odd: policy_class: result: 'int.*test_strategy\.py:\d+.*a class of policies"),
        (
            "variants",
            ({"task": "push"}, {"task": "rech"}),
            r"^strategy odd: variants\.1 \(.*test_strategy\.py:\d+\).*'rech' .*mean 'reach'",
        ),
        (
            "variants",
            ({"tsk": "push"},),
            r"^strategy odd: variants\.0 \(.*test_strategy\.py:\d+\).*'tsk' .*mean 'task'",
        ),
        ("evaluation_variants", ({"task": "rech"},), r"^strategy odd: evaluation_variants\.0 .*'rech' .*mean 'reach'"),
        ("wrap_env", None, r"^odd\.wrap_env: 'NoneType' is returned by Odd.*a VecEnv"),
        ("callbacks", 5, r"strategy Odd\.callbacks: result: .*int.*allowed: a sequence"),
        ("callbacks", [5], "^callbacks: 5 is not a callback"),
        ("outcome", {"best": {1}}, "strategy odd: outcome: .*set.*allowed: numbers"),
    ],
    ids=str,
)
def test_a_result_of_another_form_is_refused_by_the_name_of_the_method(
    method: str, result: Any, message: str, tmp_path: Path
) -> None:
    register_strategy("odd")(type("Odd", (Strategy,), {method: lambda self, *_: result}))
    with pytest.raises(MygymError, match=message):
        mygym.train(config("ppo", tmp_path, strategy="odd"))


def test_an_attribute_for_checkpoints_that_does_not_exist_is_refused_before_the_run(tmp_path: Path) -> None:
    register_strategy("odd")(type("Odd", (Strategy,), {"checkpointed": ("level",)}))
    with pytest.raises(ConfigError, match=r"^odd\.checkpointed: 'level' is no attribute of Odd"):
        mygym.train(config("ppo", tmp_path, strategy="odd"))
    assert not list(tmp_path.iterdir())


def test_a_helper_of_another_name_is_allowed() -> None:
    class Helped(Strategy):
        def prepare_data(self, *_: Any) -> None:
            self.prepare_dataset([])

        def prepare_dataset(self, dataset: Any) -> None: ...

    register_strategy("helped")(Helped)


def test_a_registered_strategy_is_listed_with_its_origin() -> None:
    register_strategy("recorded")(Recorded)
    entry = registry("strategy").get("recorded")
    assert (entry.help, entry.origin.rpartition(":")[0]) == ("Records its calls.", __file__)
