"""Ranges in configs and the settings of a sweep: reading, errors, the check of the whole space."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mygym.algos.stable_baselines import PPO
from mygym.config import load_file
from mygym.errors import ConfigError
from mygym.registry import algorithm, register_algorithm, registry
from mygym.sweeps.settings import NESTED, NUMBERS, check_space, make_sweep, merge_with_ranges
from mygym.sweeps.space import find_parameters, grid_values, size, with_values
from mygym.training import files
from mygym.training.result import Result
from tests.conftest import ROOT

SPACES = [
    (name, framework)
    for name in registry("algorithm").names()
    for framework, entry in registry("algorithm").get(name).load().items()
    if entry.search_space
]


@pytest.mark.parametrize(
    ("text", "parameter", "key"), [("joint_delta", "step", "name"), ("runs/earlier", "load", "path")]
)
def test_a_range_of_a_key_keeps_the_text_of_its_section(text: str, parameter: str, key: str) -> None:
    section, values = ("control", [0.05]) if key == "name" else ("pretrained", [["policy"]])
    ranges = {section: {parameter: {"choice": values}}}
    assert merge_with_ranges({section: text}, ranges) == {section: {key: text, **ranges[section]}}


RATE = {"algo_params": {"learning_rate": {"loguniform": [1e-4, 1e-2]}}}


def test_ranges_are_taken_out_and_values_put_in() -> None:
    config = {"task": "reach", "algo_params": {"gamma": {"choice": [0.9, 0.95]}, "tau": 0.1}, "steps": {"int": [1, 9]}}
    base, (gamma, steps) = find_parameters(config)
    assert base == {"task": "reach", "algo_params": {"tau": 0.1}}
    assert (gamma.key, gamma.kind, gamma.finite) == ("algo_params.gamma", "choice", (0.9, 0.95))
    assert steps.finite == range(1, 10)
    assert size([gamma, steps]) == 18
    assert with_values(base, {gamma.path: 0.9, steps.path: 4}) == {
        "task": "reach",
        "algo_params": {"tau": 0.1, "gamma": 0.9},
        "steps": 4,
    }
    assert base == {"task": "reach", "algo_params": {"tau": 0.1}}


@pytest.mark.parametrize(
    ("marker", "text"),
    [
        ({"uniform": [1, 0.5]}, "is inverted"),
        ({"uniform": [1, 1]}, "is empty"),
        ({"uniform": [1]}, "two numbers"),
        ({"uniform": ["a", "b"]}, "two finite numbers"),
        ({"uniform": [0, float("inf")]}, "two finite numbers"),
        ({"loguniform": [0, 1]}, "no logarithm"),
        ({"int": [1, 2.5]}, "two whole numbers"),
        ({"int": [True, 3]}, "two whole numbers"),
        ({"choice": []}, "is not a list with values"),
        ({"grid": 3}, "is not a list with values"),
        ({"grid": [1, 2, 1]}, "repeats 1"),
        ({"grid": [1], "int": [1, 2]}, "a single word"),
        ([{"int": [8, 64]}, 64], "a range within a list"),
    ],
)
def test_a_bad_range_is_named(marker: Any, text: str) -> None:
    with pytest.raises(ConfigError, match=f"algo_params.gamma: .*{text}"):
        find_parameters({"algo_params": {"gamma": marker}})


@pytest.mark.parametrize(
    ("more", "text"),
    [
        ({"sweep": {"trails": 3}}, "sweep.trails: .*did you mean 'trials'"),
        ({"sweep": {"sampler": "tp"}}, "sweep.sampler: 'tp'"),
        ({"sweep": {"sampler": "grid"}}, "sweep.sampler: 'grid' needs lists"),
        ({"sweep": {"objective": "sucess"}}, "did you mean 'success'"),
        (
            {"sweep": {"objective": ["success", "success"]}},
            r"sweep.objective: .* names one twice",
        ),
        ({"sweep": {"objective": "steps_to_0"}}, "sweep.objective: 'steps_to_0'"),
        ({"sweep": {"objective": {"maximize": "path"}}}, "sweep.objective.maximize: 'path' is no number"),
        ({"sweep": {"objective": {"maximize": "steps.x"}}}, "sweep.objective.maximize: 'steps.x' is no number"),
        ({"sweep": {"seeds": [1, 1]}}, "sweep.seeds"),
        ({"sweep": 3}, "sweep: 3"),
        ({"robbot": "panda"}, "robbot: .*did you mean 'robot'"),
        ({"seed": {"int": [0, 3]}}, "seed: .*is the same in all trials"),
        ({"algo": "bc", "sweep": {"space": "default"}}, "is not registered for bc"),
        ({"algo": {"choice": ["ppo", "sac"]}, "sweep": {"space": "default"}}, "needs a single algo"),
    ],
)
def test_bad_settings_are_named(more: dict[str, Any], text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        make_sweep({**RATE, **more})


@pytest.mark.parametrize(
    ("more", "text"),
    [
        ({"steps": {"int": [0, 10]}}, r"steps: 0 .*\(in the trial .*steps=0"),
        ({"algo": {"choice": ["ppo", "sca"]}}, "algo: 'sca' .*did you mean 'sac'"),
        ({"algo_params": {"gamma": {"uniform": [0.5, 1.5]}}}, "algo_params.gamma: 1.5 is out of range"),
        ({"algo_params": {"gamm": {"uniform": [0.5, 0.9]}}}, "algo_params.gamm: .*did you mean 'gamma'"),
        ({"algo_params": {"batch_size": {"uniform": [8, 9]}}}, "algo_params.batch_size"),
        ({**RATE, "eval": {"evry": 5}}, "eval.evry"),
    ],
)
def test_the_whole_space_is_built(more: dict[str, Any], text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        check_space(make_sweep(more))


def test_a_large_space_is_built_with_every_value() -> None:
    wide = {f"p{index}": {"choice": list(range(30))} for index in range(4)}
    with pytest.raises(ConfigError, match=r"learning_rate: -0\.001"):
        check_space(
            make_sweep(
                {
                    "algo": "ppo",
                    "algo_params": {
                        "n_steps": {"choice": [16 * (index + 1) for index in range(30)]},
                        "n_epochs": {"choice": [index + 1 for index in range(30)]},
                        "learning_rate": {"choice": [*(1e-4 * (index + 1) for index in range(29)), -1e-3]},
                    },
                }
            )
        )
    assert size(find_parameters(wide)[1]) == 30**4


def test_every_registered_search_space_can_be_built() -> None:
    for name, framework in SPACES:
        sweep = make_sweep({"algo": name, "framework": framework, "sweep": {"space": "default"}})
        assert {each.path[1] for each in sweep.parameters} == set(algorithm(name, framework).search_space)
        assert check_space(sweep)


def test_a_registered_range_of_no_kind_is_refused() -> None:
    register_algorithm("own", search_space={"gamma": {"betwixt": [0.9, 1.0]}})(type("Own", (PPO,), {}))
    with pytest.raises(ConfigError, match=r"'gamma': \{'betwixt': .* in the search_space of own .*loguniform"):
        make_sweep({"algo": "own", "sweep": {"space": "default"}})


def test_values_of_the_user_replace_the_registered_ranges() -> None:
    params = {"gamma": 0.9, "learning_rate": {"choice": [1e-3]}}
    sweep = make_sweep({"task": "push", "algo_params": params, "algo": "ppo", "sweep": {"space": "default"}})
    ranges = {each.key: each.kind for each in sweep.parameters}
    assert ranges["algo_params.learning_rate"] == "choice"
    assert "algo_params.gamma" not in ranges
    assert ranges["algo_params.policy_kwargs.net_arch"] == "choice"


def test_a_range_of_the_user_is_searched_beside_the_registered_ranges() -> None:
    sweep = make_sweep({**RATE, "algo": "ppo", "sweep": {"space": "default"}})
    assert {each.path[1] for each in sweep.parameters} == set(algorithm("ppo").search_space)
    assert {each.path[1]: each.values for each in sweep.parameters}["learning_rate"] == (1e-4, 1e-2)


def test_the_default_space_keeps_the_default_algorithm_of_the_task() -> None:
    assert make_sweep({"task": "push", "sweep": {"space": "default"}}).base["algo"] == "ppo"
    assert make_sweep({"task": "push", **RATE, "sweep": {"space": "default"}}).base["algo"] == "ppo"


def test_a_flag_replaces_a_range_of_the_file() -> None:
    (gamma,) = make_sweep(
        {"algo_params": {"gamma": {"choice": [0.9]}}}, {"algo_params": {"gamma": {"uniform": [0.1, 0.2]}}}
    ).parameters
    assert (gamma.kind, gamma.values) == ("uniform", (0.1, 0.2))


@given(
    st.sampled_from(["random", "tpe", "cmaes"]),
    st.integers(1, 9),
    st.lists(st.integers(0, 99), min_size=1, max_size=4, unique=True),
    st.sampled_from(["success", "steps_to_0.9", {"minimize": "wall_time_s"}]),
)
def test_a_written_sweep_is_read_again(
    tmp_path_factory: pytest.TempPathFactory, sampler: str, trials: int, seeds: list[int], objective: Any
) -> None:
    settings = {"sampler": sampler, "trials": trials, "seeds": seeds, "objective": objective, "space": "default"}
    sweep = make_sweep({**RATE, "algo": "ppo", "seed": 3, "sweep": settings})
    path = tmp_path_factory.mktemp("sweep") / "sweep.yaml"
    files.write_yaml(path, sweep.to_file())
    again = make_sweep(load_file(path))
    assert (again.parameters, again.base, again.seeds, again.trials) == (
        sweep.parameters,
        sweep.base,
        tuple(seeds),
        trials,
    )
    assert again.fixed() == sweep.fixed()


def test_seeds_count_from_that_of_the_config() -> None:
    assert make_sweep({**RATE, "seed": 4, "sweep": {"seeds": 3}}).seeds == (4, 5, 6)


def test_a_grid_has_all_its_trials() -> None:
    sweep = make_sweep({"algo_params": {"gamma": {"grid": [0.9, 0.95]}, "tau": {"grid": [0.1, 0.2, 0.3]}}})
    assert (sweep.sampler, sweep.trials) == ("grid", 6)


def test_a_huge_grid_takes_no_memory() -> None:
    sweep = make_sweep({"steps": {"int": [1, 10**12]}, "sweep": {"sampler": "grid"}})
    assert sweep.trials == 100_000
    assert grid_values(sweep.parameters, 10**11) == [10**11 + 1]


def test_objectives_name_fields_of_results() -> None:
    assert {*NUMBERS, *NESTED} <= set(Result.__dataclass_fields__)


@pytest.mark.parametrize("path", sorted((ROOT / "configs/sweeps").glob("*.yaml")), ids=lambda path: path.stem)
def test_the_sweeps_that_ship_can_be_built(path: Path) -> None:
    assert path.read_text().startswith(f"# mygym sweep configs/sweeps/{path.name}\n")
    assert check_space(make_sweep(load_file(path)))
