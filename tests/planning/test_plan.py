"""The plan of a run: config, variants and strategies are derived once."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import mygym
import train as train_script
from mygym.cli.main import run as command
from mygym.config import layers
from mygym.planning import plan, resolve, strategies
from mygym.planning.plan import make_plan, plan_from_python, plan_of
from mygym.registry import implemented_combos
from mygym.strategies import Strategy, register_strategy
from mygym.training.env_factory import make_vec_env, with_process_count
from mygym.training.model_factory import as_built, build_model
from mygym.training.result import Result
from tests.training.test_resuming import config, differences


class Counting(Strategy):
    """Counts its objects.

    Args:
        level: A parameter that the config leaves open.
    """

    constructed = 0

    def __init__(self, *, level: int | None = None) -> None:
        type(self).constructed += 1
        self.level = level


class Completing(Counting):
    """Completes its parameter."""

    def complete_params(self) -> dict[str, Any]:
        return {"level": 3 if self.level is None else self.level}


@pytest.fixture
def counting() -> type[Counting]:
    class Fresh(Counting):
        """Counts its objects."""

    register_strategy("counting")(Fresh)
    return Fresh


def test_a_run_constructs_its_strategies_once(counting: type[Counting], tmp_path: Path) -> None:
    mygym.train(config("ppo", tmp_path, strategy="counting", steps=32))
    assert counting.constructed == 1


def test_a_run_derives_its_config_variants_and_schema_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: Counter[str] = Counter()
    for module, name in ((layers, "resolve"), (strategies, "make_variants")):
        original = getattr(module, name)

        def counted(*args: Any, original: Any = original, name: str = name, **kwargs: Any) -> Any:
            calls[name] += 1
            return original(*args, **kwargs)

        for user in (resolve, plan):
            monkeypatch.setattr(user, name, counted, raising=False)
    mygym.train(config("ppo", tmp_path, steps=32))
    assert calls["resolve"] <= 4
    assert calls["make_variants"] <= 2  # once before the hyperparameters are decided, once for the plan


def test_strategies_are_constructed_again_only_with_completed_parameters() -> None:
    class Fresh(Completing):
        """Completes its parameter."""

    register_strategy("completing")(Fresh)
    plan = plan_from_python({"strategy": "completing"})
    assert (Fresh.constructed, plan.strategies[0].level) == (2, 3)
    assert plan.config.strategy_params == {"level": 3}
    plan = plan_from_python({"strategy": "completing", "strategy_params": {"level": 5}})
    assert (Fresh.constructed, plan.strategies[0].level) == (3, 5)


def test_a_plan_keeps_its_strategies_when_the_model_is_built() -> None:
    plan = make_plan(overrides={"algo": "ppo", "strategy": "multitask", "n_envs": 1})
    assert plan_of(plan) is plan
    assert [variant.label for variant in plan.variants] == ["reach", "push"]
    assert plan.task_label == "reach+push"
    env = make_vec_env(plan)
    built = plan.with_resolved(as_built(plan.resolved, build_model(plan, env)))
    env.close()
    assert built.strategies == plan.strategies
    (strategy,) = built.strategies
    assert strategy.plan is built
    assert strategy.config is built.config
    assert {str(variant.config.algo_params) for variant in built.variants} == {str(built.config.algo_params)}


def test_the_variants_of_a_plan_have_its_number_of_processes() -> None:
    plan = make_plan(overrides={"algo": "ppo", "strategy": "multitask", "n_envs": 1, "env_processes": "auto"})
    assert [variant.config.env_processes for variant in with_process_count(plan, print).variants] == [0, 0]


def test_plan_of_a_complete_config_equals_the_plan_that_produced_it() -> None:
    plan = make_plan({"task": "AGM", "strategy": "curriculum"}, {"steps": 50_000})
    again = plan_of(plan.config)
    assert again.variants == plan.variants
    assert again.evaluated_variants == plan.evaluated_variants
    assert again.config == plan.config


# train.py ------------------------------------------------------------------------------------------------------------


def test_train_py_and_the_library_give_the_same_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    quick = config("ppo", tmp_path / "library", steps=32)
    library = mygym.train(quick)
    script = train_script.train({**quick, "logdir": str(tmp_path / "script")})
    assert not differences(library.path, script.path)
    assert train_script.train(resume=script.path).path == script.path  # the run is complete
    assert "the run is complete" in capsys.readouterr().err
    assert train_script.train({"steps": 64}, resume=script.path).steps == 64


def test_train_py_exports_the_combos() -> None:
    assert train_script.implemented_combos is implemented_combos
    assert implemented_combos["ppo"]["pytorch"][0].__name__ == "PPO"


def test_a_model_is_built_from_the_combo_and_the_config_wins() -> None:
    AlgoClass, args, kwargs = implemented_combos["ppo"]["pytorch"]  # noqa: N806

    class Subclass(AlgoClass):  # type: ignore[misc,valid-type]
        pass

    plan = make_plan(overrides={"algo": "ppo", "n_envs": 1, "algo_params": {"gamma": 0.9}})
    env = make_vec_env(plan)
    model = build_model(plan, env, (Subclass, args, {**kwargs, "gamma": 0.5}))
    env.close()
    assert (type(model), model.gamma) == (Subclass, 0.9)


def test_the_command_calls_the_train_function_that_it_gets(tmp_path: Path) -> None:
    called: list[Any] = []

    def trained(config: Any, *, resume: Any) -> Result:
        called.append((config.config.steps, resume))
        return mygym.train(config)

    quick = config("ppo", tmp_path, steps=64)
    (tmp_path / "run.json").write_text(json.dumps(quick))
    with pytest.raises(SystemExit) as ended:
        command("train", ["--config", str(tmp_path / "run.json"), "--steps", "32"], train=trained)
    assert (ended.value.code, called) == (0, [(32, None)])
