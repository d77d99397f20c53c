"""Schedules in configs: values, mistakes, layers, and the hyperparameters that may follow a schedule."""

from __future__ import annotations

import json
import math
import pickle
import sys
import typing
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st
from stable_baselines3.common.type_aliases import Schedule as SB3Schedule

from mygym.algos.stable_baselines import A2C, PPO, SAC
from mygym.config import load_file, merged, parse_overrides
from mygym.config.loading import Dumper
from mygym.config.parameter_checks import RANGES
from mygym.config.schedules import (
    LIBRARIES,
    READS,
    OfProgress,
    Schedule,
    keys_of,
    may_be_scheduled,
    parse,
    register_schedule,
    schedules,
)
from mygym.errors import ConfigError, RegistryError
from mygym.planning.resolve import resolve_config
from mygym.registry import algorithm, register_algorithm, registry
from mygym.registry.signatures import fits
from mygym.training.runner import Runner
from tests.components import ALGORITHMS, check, known

KEY = "algo_params.learning_rate"
BUILT_IN = ("constant", "cosine", "exponential", "inverse", "linear", "piecewise")
MONOTONE = ("cosine", "exponential", "inverse", "linear")
POSITIVE = st.floats(1e-12, 1e6)
TOTALS = st.integers(1, 10**9)
SHARES = st.lists(st.floats(0, 1), min_size=2, max_size=20)


def class_of(name: str) -> type:
    return algorithm(name).combo()[0]


def make_schedule(name: str, **data: Any) -> Schedule:
    return parse(KEY, {"schedule": name, **{key.removesuffix("_"): value for key, value in data.items()}})


@st.composite
def datas(draw: st.DrawFn) -> dict[str, Any]:
    """Draw valid data of any built-in schedule."""
    name = draw(st.sampled_from(BUILT_IN))
    if name == "constant":
        return {"schedule": name, "value": draw(POSITIVE)}
    if name == "piecewise":
        steps = sorted(draw(st.sets(st.integers(0, 10**6), min_size=2, max_size=6)))
        return {"schedule": name, "points": [[step, draw(POSITIVE)] for step in steps]}
    data = {"schedule": name, "from": draw(POSITIVE), "to": draw(POSITIVE)}
    start = draw(st.none() | st.integers(0, 1000))
    until = draw(st.none() | st.integers((start or 0) + 1, 10**6))
    return data | {key: value for key, value in (("start", start), ("until", until)) if value is not None}


# Values -------------------------------------------------------------------------------------------------------------


def test_six_shapes_are_built_in() -> None:
    assert registry("schedule").names() == sorted(BUILT_IN)


@pytest.mark.parametrize("name", MONOTONE)
@given(first=POSITIVE, last=POSITIVE, total=TOTALS, shares=SHARES)
@example(first=0.1, last=0.3, total=10, shares=[0.1, 0.7])
def test_a_schedule_has_exact_ends_and_is_monotone(
    name: str, first: float, last: float, total: int, shares: list[float]
) -> None:
    schedule = make_schedule(name, from_=first, to=last)
    values = [schedule.value(step, total) for step in sorted(round(share * total) for share in shares)]
    assert (schedule.value(0, total), schedule.value(total, total), schedule.value(total + 7, total)) == (
        first,
        last,
        last,
    )
    assert all(min(first, last) <= value <= max(first, last) for value in values)
    slack = 4 * sys.float_info.epsilon * max(first, last)  # logarithms and cosines are rounded
    for before, after in pairwise(values):
        assert after >= before - slack if last >= first else after <= before + slack


@pytest.mark.parametrize(
    ("name", "quarters"),
    [
        ("linear", [1.0, 0.775, 0.55, 0.325, 0.1]),
        ("exponential", [1.0, 10**-0.25, 10**-0.5, 10**-0.75, 0.1]),
        ("cosine", [1.0, 0.1 + 0.45 * (1 + math.sqrt(0.5)), 0.55, 0.1 + 0.45 * (1 - math.sqrt(0.5)), 0.1]),
        ("inverse", [1 / (1 + 0.09 * step) for step in (0, 25, 50, 75, 100)]),
    ],
)
def test_each_shape_follows_its_name(name: str, quarters: list[float]) -> None:
    schedule = make_schedule(name, from_=1.0, to=0.1)
    assert [schedule.value(step, 100) for step in (0, 25, 50, 75, 100)] == pytest.approx(quarters)


@pytest.mark.parametrize("name", MONOTONE)
@given(start=st.integers(0, 1000), length=st.integers(1, 10**6), step=st.integers(0, 2 * 10**6))
def test_a_schedule_changes_between_start_and_until_only(name: str, start: int, length: int, step: int) -> None:
    schedule = make_schedule(name, from_=2.0, to=0.5, start=start, until=start + length)
    value = schedule.value(step, 10**7)
    if step <= start:
        assert value == 2.0
    elif step >= start + length:
        assert value == 0.5
    else:
        assert value == make_schedule(name, from_=2.0, to=0.5).value(step - start, length)


def test_without_until_a_schedule_ends_with_the_run() -> None:
    schedule = make_schedule("linear", from_=1.0, to=0.0, start=100)
    assert [schedule.value(step, 300) for step in (0, 100, 200, 300)] == [1.0, 1.0, 0.5, 0.0]
    assert [schedule.value(step, 500) for step in (0, 100, 200, 300, 500)] == [1.0, 1.0, 0.75, 0.5, 0.0]


@given(data=datas().filter(lambda data: data["schedule"] == "piecewise"), step=st.integers(0, 2 * 10**6))
def test_piecewise_goes_through_its_points_without_a_jump(data: dict[str, Any], step: int) -> None:
    schedule, points = parse(KEY, data), data["points"]
    assert [schedule.value(at, 1) for at, _ in points] == [value for _, value in points]
    assert schedule.value(max(points[0][0] - step, 0), 1) == points[0][1]
    assert schedule.value(points[-1][0] + step, 1) == points[-1][1]
    steepest = max(abs(b[1] - a[1]) / (b[0] - a[0]) for a, b in pairwise(points))
    largest = max(value for _, value in points)
    assert abs(schedule.value(step + 1, 1) - schedule.value(step, 1)) <= steepest + 1e-12 * largest
    assert min(value for _, value in points) <= schedule.value(step, 1) <= largest


@given(value=POSITIVE, step=st.integers(0, 10**9))
def test_constant_has_the_same_value_at_every_step(value: float, step: int) -> None:
    assert make_schedule("constant", value=value).value(step, 100) == value


@given(data=datas(), steps=st.lists(st.integers(0, 10**6), max_size=5))
def test_data_survive_yaml_json_and_pickle(data: dict[str, Any], steps: list[int]) -> None:
    schedule = parse(KEY, data)
    again = [
        parse(KEY, yaml.safe_load(yaml.dump(data, Dumper=Dumper))),
        parse(KEY, json.loads(json.dumps(data))),
        pickle.loads(pickle.dumps(OfProgress(schedule, 1000))).schedule,
    ]
    assert [[schedule_again.value(step, 1000) for step in steps] for schedule_again in again] == [
        [schedule.value(step, 1000) for step in steps]
    ] * 3


@given(total=TOTALS, share=st.floats(0, 1.2))
def test_remaining_progress_is_converted_to_env_steps_exactly(total: int, share: float) -> None:
    steps = round(share * total)
    schedule = make_schedule("linear", from_=1.0, to=0.1)
    remaining = 1.0 - float(steps) / float(total)  # as SB3 computes it
    assert OfProgress(schedule, total)(remaining) == schedule.value(steps, total)


# Mistakes -----------------------------------------------------------------------------------------------------------

LINEAR: dict[str, Any] = {"schedule": "linear", "from": 1e-3, "to": 1e-4}
POINTS: dict[str, Any] = {"schedule": "piecewise", "points": [[0, 1e-3], [10, 1e-4]]}


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (LINEAR | {"schedule": "cosin"}, [f"{KEY}.schedule: 'cosin'", "did you mean 'cosine'"]),
        (LINEAR | {"schedule": 3}, [f"{KEY}.schedule: 3", "linear"]),
        (LINEAR | {"schedule": None}, [f"{KEY}.schedule: None", "linear"]),
        (LINEAR | {"schedule": ["linear"]}, [f"{KEY}.schedule: ['linear']", "linear"]),
        ({"from": 1, "to": 2}, [f"{KEY}.schedule: None is missing", "linear"]),
        ({"shedule": "linear", "from": 1, "to": 2}, [f"{KEY}.schedule", "'shedule'", "did you mean 'schedule'"]),
        ({"schedule": "linear", "from": 1}, [f"{KEY}.to: None is missing", "a number"]),
        ({"schedule": "constant"}, [f"{KEY}.value: None is missing"]),
        ({"schedule": "piecewise"}, [f"{KEY}.points: None is missing", "[env steps, number]"]),
        (LINEAR | {"form": 1}, [f"{KEY}.form: 'form' is not a parameter of linear", "did you mean 'from'"]),
        (LINEAR | {"progress": 1}, [f"{KEY}.progress: 'progress' is not a parameter of linear"]),
        (POINTS | {"start": 1}, [f"{KEY}.start: 'start' is not a parameter of piecewise"]),
        ({"schedule": "constant", "value": 1, "until": 3}, [f"{KEY}.until", "is not a parameter of constant"]),
        (LINEAR | {"to": "1e-5x"}, [f"{KEY}.to: '1e-5x' is not a finite number"]),
        (LINEAR | {"to": True}, [f"{KEY}.to: True is not a finite number"]),
        (LINEAR | {"to": None}, [f"{KEY}.to: None is not a finite number"]),
        (LINEAR | {"from": math.nan}, [f"{KEY}.from: nan is not a finite number"]),
        (LINEAR | {"from": -math.inf}, [f"{KEY}.from: -inf is not a finite number"]),
        (LINEAR | {"start": -1}, [f"{KEY}.start: -1", "at least 0"]),
        (LINEAR | {"until": 2.5}, [f"{KEY}.until: 2.5", "a whole number"]),
        (LINEAR | {"until": True}, [f"{KEY}.until: True", "a whole number"]),
        (LINEAR | {"start": 20, "until": 20}, [f"{KEY}.start: 20 is too late", "less than 20 (until)"]),
        (LINEAR | {"start": 1000}, [f"{KEY}.start: 1000 is too late", "less than 1000 (the steps of the run)"]),
        (LINEAR | {"to": -1e-9}, [f"{KEY}.to: -1e-09 is out of range", "above 0"]),
        (LINEAR | {"from": 0, "to": 0.0}, [KEY, "out of range for the whole run", "above 0"]),
        ({"schedule": "constant", "value": 0}, [KEY, "out of range for the whole run", "above 0"]),
        (LINEAR | {"schedule": "exponential", "to": 0}, [KEY, "needs ends above 0"]),
        (LINEAR | {"schedule": "inverse", "to": 0}, [KEY, "needs ends above 0"]),
        (POINTS | {"points": 3}, [f"{KEY}.points: 3 are not points", "pairs"]),
        (POINTS | {"points": [[0, 1e-3]]}, [f"{KEY}.points", "at least two"]),
        (POINTS | {"points": [[0, 1e-3], 4]}, [f"{KEY}.points", "pairs"]),
        (POINTS | {"points": [[0, 1e-3], [5]]}, [f"{KEY}.points", "pairs"]),
        (POINTS | {"points": [[0, 1e-3], [5, "x"]]}, [f"{KEY}.points.1.1: 'x'", "a number"]),
        (POINTS | {"points": [[0, 1e-3], [0.5, 1]]}, [f"{KEY}.points.1.0: 0.5", "whole"]),
        (POINTS | {"points": [[0, 1e-3], [5, 1], [5, 2]]}, [f"{KEY}.points.2.0: 5 is not in order", "more than 5"]),
        (POINTS | {"points": [[9, 1e-3], [5, 1]]}, [f"{KEY}.points.1.0: 5 is not in order", "more than 9"]),
        (POINTS | {"points": [[0, 1e-3], [5, -1]]}, [f"{KEY}.points.1.1: -1 is out of range", "above 0"]),
    ],
)
def test_a_mistake_is_one_message_with_key_value_and_allowed_values(data: dict[str, Any], words: list[str]) -> None:
    with pytest.raises(ConfigError) as error:
        parse(KEY, data, RANGES["learning_rate"], total_steps=1000)
    assert all(word in str(error.value) for word in words), str(error.value)
    with pytest.raises(ConfigError) as error:
        resolve_config(overrides={"algo": "ppo", "steps": 1000, "algo_params": {"learning_rate": data}})
    assert str(error.value).startswith(KEY)


@pytest.mark.parametrize("ends", [(0, 1e-3), (1e-3, 0)])
def test_an_end_of_a_schedule_may_equal_an_excluded_bound(ends: tuple[float, float]) -> None:
    with pytest.raises(ConfigError, match="above 0"):
        check(PPO, {"learning_rate": 0})
    check(PPO, {"learning_rate": {"schedule": "linear", "from": ends[0], "to": ends[1]}})
    check(PPO, {"learning_rate": {"schedule": "piecewise", "points": [[0, ends[0]], [9, ends[1]]]}})


def test_whole_floats_are_env_steps() -> None:
    schedule = make_schedule("linear", from_=1, to=0, until=1e5)
    assert (schedule.until, type(schedule.until)) == (100_000, int)


@pytest.mark.parametrize(
    ("name", "key", "inside", "outside", "allowed"),
    [
        ("ppo", "learning_rate", 0.5, -1, "above 0"),
        ("sac", "tau", 0.5, 1.5, "at least 0 and at most 1"),
        ("td3", "action_noise", 0.5, -0.5, "at least 0"),
        ("ddqn", "epsilon", 0.5, 1.5, "at least 0 and at most 1"),
        ("cem", "smoothing", 0.5, 1.5, "above 0 and at most 1"),
    ],
)
def test_both_ends_and_every_point_lie_in_the_range_of_the_hyperparameter(
    name: str, key: str, inside: float, outside: float, allowed: str
) -> None:
    for data in (
        {"schedule": "linear", "from": inside, "to": outside},
        {"schedule": "linear", "from": outside, "to": inside},
        {"schedule": "piecewise", "points": [[0, inside], [5, outside], [6, inside]]},
    ):
        with pytest.raises(ConfigError, match=rf"algo_params\.{key}.*out of range.*{allowed}"):
            check(class_of(name), {key: data})


def test_numbers_out_of_range_of_float32_are_refused() -> None:
    with pytest.raises(ConfigError, match="float32"):
        check(PPO, {"vf_coef": {"schedule": "linear", "from": 1, "to": 1e300}})


# Custom shapes ------------------------------------------------------------------------------------------------------

POWER = '''\
"""Custom schedules."""
from pathlib import Path
from mygym.config.schedules import register_schedule

Path(__file__).with_name("executed.txt").write_text(__name__)


@register_schedule("power")
def power(progress: float, from_: float, to: float, exponent: float = 2.0) -> float:
    """Falls as a power of the remaining progress."""
    if exponent <= 0:
        raise ValueError("needs an exponent above 0")
    return to + (from_ - to) * (1 - progress) ** exponent
'''


@pytest.fixture
def power(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "algos").mkdir()
    (tmp_path / "algos" / "custom.py").write_text(POWER)
    return tmp_path / "algos" / "executed.txt"


def test_a_users_file_adds_a_shape_with_parameters(power: Path) -> None:
    assert registry("schedule").get("power").help == "Falls as a power of the remaining progress."
    data = {"schedule": "power", "from": 1.0, "to": 0.0, "start": 10, "until": 20}
    assert parse(KEY, data).value(15, 100) == 0.25
    assert parse(KEY, data | {"exponent": 3}).value(15, 100) == 0.125
    assert pickle.loads(pickle.dumps(parse(KEY, data))).value(15, 100) == 0.25
    assert power.read_text() == "mygym_user.algos.custom"
    with pytest.raises(ConfigError, match=rf"{KEY}\.exponnt: .*did you mean 'exponent'"):
        parse(KEY, data | {"exponnt": 3})
    with pytest.raises(ConfigError, match="needs an exponent above 0"):
        parse(KEY, data | {"exponent": -1})
    with pytest.raises(ConfigError, match="exponent: 'x'"):
        parse(KEY, data | {"exponent": "x"})


@pytest.mark.parametrize(
    ("shape", "words"),
    [
        (lambda progress, from_, to: math.nan, "reaches nan"),
        (lambda progress, from_, to: from_ - 10 * progress * (1 - progress), "reaches -"),
        (lambda progress, from_, to: from_ / (progress - progress), "division"),
        (lambda progress, from_, to: None, "NoneType"),
    ],
)
def test_every_value_of_a_shape_is_checked_before_a_run(shape: Callable[..., float], words: str) -> None:
    shape.__doc__ = "Broken."
    register_schedule("broken")(shape)
    with pytest.raises(ConfigError, match=rf"{KEY}: .*{words}") as caught:
        parse(KEY, {"schedule": "broken", "from": 1, "to": 2}, RANGES["learning_rate"])
    assert f"by schedule broken ({__file__}:" in str(caught.value)


def test_a_first_parameter_of_another_name_is_named_by_its_line() -> None:
    register_schedule("misnamed")(lambda share, from_, to: from_)
    message = rf"{KEY}\.share: None is missing, unless .* schedule misnamed \({__file__}:\d+\) .*progress or env_steps"
    with pytest.raises(ConfigError, match=message):
        parse(KEY, {"schedule": "misnamed", "from": 1, "to": 2})


def test_a_registration_may_have_a_help_text_and_refuses_objects_that_cannot_be_called() -> None:
    register_schedule("flat", help="Flat.")(lambda value: value)
    entry = registry("schedule").get("flat")
    assert (entry.help, entry.origin.rpartition(":")[0]) == ("Flat.", __file__)
    with pytest.raises(RegistryError, match=r"register_schedule: 'flat' .*int"):
        register_schedule("flat", override=True)(1)  # type: ignore[type-var]


def test_a_name_is_registered_once() -> None:
    with pytest.raises(Exception, match="registered twice"):
        register_schedule("linear")(lambda progress: progress)
    register_schedule("linear", override=True)(lambda progress: progress)
    assert make_schedule("linear").value(1, 4) == 0.25


@pytest.mark.parametrize("name", BUILT_IN)
def test_a_schedule_is_described_with_its_keys(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    from mygym.cli.describe import describe as main

    main(["schedule", name, "--json"])
    values = json.loads(capsys.readouterr().out)
    assert values["parameters"].keys() == keys_of(registry("schedule").get(name).load()).keys()
    assert ("until" in values["parameters"]) == (name in MONOTONE)


# Layers of settings -------------------------------------------------------------------------------------------------

COSINE: dict[str, Any] = {"schedule": "cosine", "from": 5e-4, "to": 5e-5, "until": 500}


@pytest.mark.parametrize(
    ("low", "high", "result"),
    [
        (1e-3, LINEAR, LINEAR),
        (LINEAR, 1e-3, 1e-3),
        (LINEAR, None, None),
        (COSINE, LINEAR, LINEAR),  # until is removed
        (COSINE, {"schedule": "constant", "value": 1}, {"schedule": "constant", "value": 1}),
        (COSINE, {"to": 0}, COSINE | {"to": 0}),
        ({"net_arch": [8]}, {"n_critics": 1}, {"net_arch": [8], "n_critics": 1}),
    ],
)
def test_a_schedule_replaces_another_schedule(low: Any, high: Any, result: Any) -> None:
    assert merged({"x": {"y": low, "z": 1}}, {"x": {"y": high}}) == {"x": {"y": result, "z": 1}}


@pytest.mark.parametrize("default", [COSINE, LINEAR, 1e-3], ids=str)
def test_the_layers_of_a_run_do_not_mix_schedules(default: Any) -> None:
    register_algorithm("scheduled", defaults={"learning_rate": default})(PPO)
    for values in (COSINE, LINEAR, 2e-3, {"schedule": "constant", "value": 3e-3}):
        resolved = resolve_config({"algo": "scheduled"}, {"algo_params": {"learning_rate": values}})
        assert resolved.config.algo_params["learning_rate"] == values
    if default != 1e-3:
        resolved = resolve_config({"algo": "scheduled"}, {"algo_params": {"learning_rate": {"to": 0.0}}})
        assert resolved.config.algo_params["learning_rate"] == default | {"to": 0.0}
        assert resolved.origins["algo_params.learning_rate.to"] == "flag"
        assert resolved.origins["algo_params.learning_rate.from"] == "algorithm scheduled"


def test_a_misspelt_default_of_an_algorithm_is_not_ignored() -> None:
    register_algorithm("scheduled", defaults={"learning_rate": LINEAR | {"schedule": "linaer"}})(PPO)
    with pytest.raises(ConfigError, match=r"algo_params\.learning_rate\.schedule: 'linaer'.*did you mean 'linear'"):
        resolve_config({"algo": "scheduled"})


def test_flags_set_a_complete_schedule_or_its_keys() -> None:
    whole = parse_overrides(["algo_params.learning_rate={schedule: linear, from: 1e-3, to: 0.0}"])
    by_key = parse_overrides(
        [f"algo_params.learning_rate.{pair}" for pair in ("schedule=linear", "from=1e-3", "to=0.0")]
    )
    assert (
        resolve_config(overrides={"algo": "ppo", **whole}).values()
        == resolve_config(overrides={"algo": "ppo", **by_key}).values()
    )


@pytest.mark.parametrize("suffix", [".yaml", ".json"])
def test_a_config_file_has_schedules(suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"run{suffix}"
    document = {"algo": "ppo", "algo_params": {"learning_rate": COSINE}}
    path.write_text(yaml.safe_dump(document) if suffix == ".yaml" else json.dumps(document))
    resolved = resolve_config(load_file(path))
    assert resolved.config.algo_params["learning_rate"] == COSINE
    assert resolved.origins["algo_params.learning_rate.schedule"] == "file"


# Schedulable parameters -----------------------------------------------------------------------------------------

REFUSED = [
    (name, key)
    for name in ALGORITHMS
    for key in known(class_of(name))
    if key not in may_be_scheduled(class_of(name)) and not key.endswith("_kwargs")
]


@pytest.mark.parametrize(
    ("name", "key", "schedulable"),
    [
        ("ppo", "gamma", "learning_rate, clip_range, clip_range_vf, ent_coef, vf_coef, max_grad_norm, target_kl"),
        ("sac", "buffer_size", "learning_rate, tau, action_noise, ent_coef, target_entropy"),
        ("ppo_runner", "n_steps", "learning_rate, gae_lambda, clip_range"),
    ],
)
def test_a_schedule_of_a_fixed_parameter_is_refused_with_the_schedulable_parameters(
    name: str, key: str, schedulable: str
) -> None:
    with pytest.raises(ConfigError, match=rf"^algo_params\.{key}: .*") as error:
        check(class_of(name), {key: {"schedule": "linear", "from": 0.1, "to": 0.2}})
    assert schedulable in str(error.value)


def test_gamma_and_whole_numbers_are_never_scheduled() -> None:
    for name in ALGORITHMS:
        cls = class_of(name)
        refused = {key for of, key in REFUSED if of == name}
        wholes = {
            key
            for key, parameter in known(cls).items()
            if isinstance(parameter.default, bool | int) and not fits(0.5, parameter.annotation)
        }
        assert wholes <= refused
        assert "gamma" in refused or "gamma" not in known(cls)
        if not issubclass(cls, Runner):  # runners read their attributes directly
            assert refused & {"gae_lambda"} == known(cls).keys() & {"gae_lambda"}
        if "learning_rate" in cls.__init__.__annotations__:
            assert "learning_rate" in may_be_scheduled(cls)


def test_a_policy_without_a_type_hint_may_not_be_scheduled() -> None:
    class Untyped(Runner):
        def __init__(self, policy, env, noise=0.1, **kwargs):  # type: ignore[no-untyped-def]
            super().__init__(policy, env, **kwargs)

    assert may_be_scheduled(Untyped) == {"noise": "held"}


def library_class(key: str) -> Any:
    package, _, name = key.partition(".")
    return getattr(pytest.importorskip(package), name)


@pytest.mark.filterwarnings("ignore")
def test_the_table_of_libraries_names_existing_parameters() -> None:
    for key in READS:
        cls = library_class(key)
        assert cls.__module__.startswith(LIBRARIES)
        assert READS[key].keys() <= known(cls).keys()
        called = [name for name, way in READS[key].items() if way == "called"]
        assert all(typing.get_type_hints(cls.__init__)[name] is not float for name in called)
        assert may_be_scheduled(cls) == READS[key]


@pytest.mark.filterwarnings("ignore")
def test_values_that_sbx_compiles_once_are_refused() -> None:
    sbx = pytest.importorskip("sbx")
    for cls, key in ((sbx.TD3, "learning_rate"), (sbx.CrossQ, "learning_rate"), (sbx.PPO, "max_grad_norm"),
                     (sbx.PPO, "clip_range_vf"), (sbx.SAC, "ent_coef"), (sbx.SAC, "qf_learning_rate")):  # fmt: skip
        with pytest.raises(ConfigError, match="is fixed while training"):
            check(cls, {key: LINEAR})
    for name in ("td3", "ddpg", "crossq"):  # mygym's classes adjust their compiled optimisers
        assert may_be_scheduled(algorithm(name, "jax").combo()[0])["learning_rate"] == "called"
    with pytest.raises(ConfigError, match="is decided by target_kl"):
        schedules(sbx.PPO, {"learning_rate": LINEAR, "target_kl": 0.01}, 1000)
    assert schedules(sbx.PPO, {"learning_rate": LINEAR, "target_kl": None}, 1000).keys() == {"learning_rate"}


@pytest.mark.parametrize(("ent_coef", "allowed"), [("auto", True), ("auto_0.1", True), (0.1, False), (LINEAR, False)])
def test_a_target_entropy_without_a_tuned_coefficient_is_refused(ent_coef: Any, allowed: bool) -> None:
    params = {"ent_coef": ent_coef, "target_entropy": {"schedule": "linear", "from": -1, "to": -3}}
    if allowed:
        assert "target_entropy" in schedules(SAC, params, 1000)
    else:
        with pytest.raises(ConfigError, match="is used with ent_coef auto only"):
            resolve_config(overrides={"algo": "sac", "algo_params": params})


class Custom(PPO):
    """Parameters of every kind."""

    def __init__(
        self,
        policy: Any,
        env: Any,
        curiosity: float = 0.1,
        courage: float | None = None,
        warmth: float | SB3Schedule = 1.0,
        anything: Any = None,
        layers: int = 2,
        kept: bool = True,
        name: str = "expected",
        max_grad_norm: float = 0.5,
        gae_lambda: float = 0.9,
        clip_range: float = 0.2,
        **kwargs: Any,
    ) -> None:
        super().__init__(policy, env, max_grad_norm=max_grad_norm, clip_range=clip_range, **kwargs)


def test_the_annotation_decides_for_a_custom_class() -> None:
    kinds = may_be_scheduled(Custom)
    expected = {"curiosity": "held", "courage": "held", "anything": "held", "warmth": "called"}
    assert {key: kind for key, kind in kinds.items() if key not in may_be_scheduled(PPO)} == expected
    assert not kinds.keys() & {"layers", "kept", "name", "gamma", "gae_lambda"}
    assert kinds["max_grad_norm"] == "held"
    assert "clip_range" not in kinds  # PPO would call a function; this class requires a number
    assert kinds.items() >= {(key, may_be_scheduled(PPO)[key]) for key in ("learning_rate", "ent_coef")}


@pytest.mark.parametrize("value", [{}, {"a": 1}, {"schedule": "linear", "from": 1, "to": 2}])
def test_a_mapping_of_a_mapping_parameter_is_not_a_schedule(value: dict[str, Any]) -> None:
    class Optional(A2C):
        def __init__(self, policy: Any, env: Any, options: dict[str, Any] | None = None, **kwargs: Any) -> None:
            super().__init__(policy, env, **kwargs)

    check(Optional, {"options": value})
    assert schedules(Optional, {"options": value, "policy_kwargs": value}, 100) == {}


def test_reading_configs_needs_neither_torch_nor_the_libraries(python: Any) -> None:
    code = (
        "import sys; from mygym.config import schedules, hyperparameters; "
        f"schedules.parse('x', {LINEAR!r}); "
        "assert not {'torch', 'stable_baselines3', 'pybullet', 'jax'} & sys.modules.keys()"
    )
    done = python("-W", "error", "-c", code)
    assert done.returncode == 0, done.stderr
