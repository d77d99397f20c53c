"""Arguments of every `register_KIND`: one of a wrong type or value is refused when it registers, and is named."""

from __future__ import annotations

import importlib
import json
import re
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from stable_baselines3.common.callbacks import BaseCallback
from torch import nn

from mygym.algos.stable_baselines import PPO
from mygym.engines.world import World
from mygym.errors import RegistryError
from mygym.registry import BUILTIN_FOLDERS, KINDS, Algorithm, add_algorithm, implemented_combos, registry
from mygym.registry.signatures import parameters
from mygym.strategies import Strategy
from mygym.strategies.mixture.samplers import FairSampler
from mygym.tasks.stages.pushing import SETTLE
from tests.command import Command
from tests.conftest import ROOT


def register_functions() -> dict[str, Callable[..., Any]]:
    """Return the functions `register_KIND(name, …)` of the package, by name."""
    found: dict[str, Callable[..., Any]] = {}
    for path in sorted((ROOT / "mygym").rglob("*.py")):
        names = re.findall(r"^def (register_\w+)\(\s*name: str", path.read_text(encoding="utf-8"), re.MULTILINE)
        if names:
            module = importlib.import_module(".".join(path.relative_to(ROOT).with_suffix("").parts))
            found |= {name: getattr(module, name) for name in names}
    return found


FUNCTIONS = register_functions()
STAGE = replace(SETTLE, name="custom", letter="")
ARGUMENTS: dict[str, dict[str, Any]] = {
    "register_observation": {"bound": 1.0},
    "register_camera_observation": {"channels": 3},
    "register_randomizer": {"unit": "m", "default": (0.0, 0.5), "allowed": (0.0, 1.0)},
    "register_stage": {"stage": STAGE},
    "register_task": {"stages": "A"},
}
"""Function → arguments that it needs besides the name of the component."""

COMPONENTS: dict[str, Any] = {
    "register_algorithm": type("Custom", (PPO,), {}),
    "register_callback": type("Custom", (BaseCallback,), {}),
    "register_engine": type("Custom", (World,), {}),
    "register_policy": lambda envs, seed: envs,
    "register_randomizer": lambda randomization, draw: randomization,
    "register_sampler": type("Custom", (FairSampler,), {}),
    "register_strategy": type("Custom", (Strategy,), {}),
    "register_controller": registry("controller").get("joint_delta").load(),
    "register_activation": nn.ReLU,
    "register_stage": None,
    "register_task": None,
}
"""Function → component that it decorates, by default a function of `context`; None: it is no decorator."""


def register(function: str, **changes: Any) -> None:
    """Register a component; the key `component` replaces the example, the other keys the arguments."""
    component = changes.pop("component", COMPONENTS.get(function, lambda context: context))
    decorate = FUNCTIONS[function](**{"name": "custom", **ARGUMENTS.get(function, {}), **changes})
    if component is not None:
        decorate(component)


@pytest.mark.parametrize("function", FUNCTIONS)
def test_the_examples_are_registered(function: str) -> None:
    register(function)


def test_every_kind_without_a_folder_has_a_function() -> None:
    assert {f"register_{kind}" for kind in KINDS if kind not in BUILTIN_FOLDERS} <= FUNCTIONS.keys()


class Anything:
    """A value of no expected type."""

    def __repr__(self) -> str:
        return "<anything>"


PARAMETERS = [(name, parameter) for name, function in FUNCTIONS.items() for parameter in parameters(function)]


@pytest.mark.parametrize(("function", "parameter"), PARAMETERS)
def test_an_argument_of_a_wrong_type_is_named_before_a_component_is_decorated(function: str, parameter: str) -> None:
    with pytest.raises(RegistryError, match=f"^{function}: {parameter}: <anything> is not allowed; allowed: [^<]+$"):
        FUNCTIONS[function](**{"name": "custom", **ARGUMENTS.get(function, {}), parameter: Anything()})


@pytest.mark.parametrize("name", ["", "two words", "a/b"])
@pytest.mark.parametrize("function", FUNCTIONS)
def test_a_name_that_is_no_identifier_is_refused(function: str, name: str) -> None:
    stage = {"stage": replace(STAGE, name=name)} if function == "register_stage" else {}
    with pytest.raises(RegistryError, match=f"{name!r} is not a name; allowed: letters, digits and _"):
        register(function, name=name, **stage)


def no_argument() -> None:
    """Take nothing."""


WRONG: list[tuple[str, dict[str, Any], list[str]]] = [
    *((name, {"name": wrong}, [f"{name}: name: {wrong} "]) for name in FUNCTIONS for wrong in (None, 3, ["custom"])),
    *((name, {"help": 3}, [f"{name}: help: 3 "]) for name, parameter in PARAMETERS if parameter == "help"),
    *((name, {"help": None}, [f"{name}: help: None "]) for name, parameter in PARAMETERS if parameter == "help"),
    ("register_reward", {"name": no_argument}, ["register_reward: name: <function", 'write @register_reward("NAME")']),
    ("register_algorithm", {"framework": "pytroch"}, ["framework: 'pytroch'", "did you mean 'pytorch'"]),
    ("register_algorithm", {"defaults": {3: 4}}, ["defaults: {3: 4}", "a mapping of text: anything or None"]),
    ("register_algorithm", {"search_space": {"gamma": 3}}, ["search_space: {'gamma': 3}", "a mapping of text: a"]),
    ("register_algorithm", {"policy": ["Mlp"]}, ["policy: ['Mlp']", "text or a class or None"]),
    ("register_algorithm", {"requires": "goals"}, ["requires: 'goals'", "a list of text or None"]),
    ("register_activation", {"framework": "pytroch"}, ["framework: 'pytroch'", "did you mean 'pytorch'"]),
    ("register_optimizer", {"framework": "tensorflow"}, ["framework: 'tensorflow'", "pytorch, jax"]),
    ("register_controller", {"aliases": "mine"}, ["aliases: 'mine'", "a list of text"]),
    ("register_observation", {"bound": -1}, ["bound: -1", "above 0"]),
    ("register_observation", {"bound": float("nan")}, ["bound: nan", "above 0"]),
    ("register_observation", {"size": "3"}, ["size: '3'", "a whole number"]),
    ("register_observation", {"component": no_argument}, ["decorates no_argument()", "a function (EpisodeContext)"]),
    ("register_observation", {"component": Anything}, ["decorates Anything", "a function (EpisodeContext)"]),
    ("register_camera_observation", {"channels": 0}, ["'channels': 0", "1 to 4 channels"]),
    ("register_camera_observation", {"channels": 5}, ["'channels': 5", "1 to 4 channels"]),
    ("register_camera_observation", {"channels": 0, "size": -1}, ["'size': -1", "a size"]),
    ("register_camera_observation", {"component": no_argument}, ["decorates no_argument()", "a function (CameraView)"]),
    ("register_policy", {"component": no_argument}, ["decorates no_argument()", "(envs, seed)"]),
    ("register_policy", {"component": dict}, ["decorates dict", "the method predict"]),
    ("register_predicate", {"component": no_argument}, ["decorates no_argument()", "a function (StageContext)"]),
    ("register_predicate", {"keeps": no_argument}, ["keeps: <function", "a function (StageContext) or None"]),
    ("register_predicate", {"goal": "height"}, ["goal: 'height'", "GoalTerm or a function (StageBinding) or None"]),
    ("register_predicate", {"excludes": "held"}, ["excludes: 'held'", "a list of text"]),
    ("register_randomizer", {"component": no_argument}, ["decorates no_argument()", "(EpisodeRandomization, Draw)"]),
    ("register_randomizer", {"default": (0.5, 0.0)}, ["default: (0.5, 0.0)", "within (0.0, 1.0)"]),
    ("register_randomizer", {"default": (0.0, 2.0)}, ["default: (0.0, 2.0)", "within (0.0, 1.0)"]),
    ("register_randomizer", {"allowed": (0.0,)}, ["allowed: (0.0,)", "[a number, a number]"]),
    ("register_reward", {"inputs": [3]}, ["inputs: [3]", "a list of a function"]),
    ("register_stage", {"stage": type(STAGE)}, ["stage: <class", "allowed: Stage"]),
    ("register_stage", {"stage": replace(STAGE, expert=no_argument)}, ["custom: expert: <function", "a function ("]),
    ("register_task", {"stages": [3]}, ["stages: [3]", "text or a list of text or a list of SubTask"]),
]  # fmt: skip


@pytest.mark.parametrize(("function", "wrong", "words"), WRONG)
def test_a_wrong_argument_is_named(function: str, wrong: dict[str, Any], words: list[str]) -> None:
    with pytest.raises(RegistryError) as error:
        register(function, **wrong)
    assert all(word in str(error.value) for word in words), error.value


def test_names_in_other_forms_of_registering_are_checked_too() -> None:
    with pytest.raises(RegistryError, match="algorithm: 3 is not a name"):
        implemented_combos[3] = {"pytorch": [PPO, (), {}]}  # type: ignore[index]
    with pytest.raises(RegistryError, match="algorithm: 3 is not a name"):
        add_algorithm(Algorithm(3, "pytorch", PPO))  # type: ignore[arg-type]


MISTAKES = {
    "@register_reward\ndef mine(context):\n    return 0\n": 'is no name: write @register_reward("NAME")',
    "@register_reward('mine', help=3)\ndef mine(context):\n    return 0\n": "help: 3 is not allowed; allowed: text",
}
"""Text of a file → end of the message."""


@pytest.mark.parametrize("text", MISTAKES)
def test_a_wrong_argument_in_a_file_is_one_message_and_a_row_with_its_error(
    text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mygym_command: Command
) -> None:
    monkeypatch.setattr(sys, "argv", [str(tmp_path / "train.py")])
    file = tmp_path / "algos" / "own.py"
    file.parent.mkdir()
    file.write_text(f"from mygym.tasks.rewards import register_reward\n{text}", encoding="utf-8")
    listed = mygym_command("list", "reward", "--json")
    assert listed.code == 0
    (row,) = [row for row in json.loads(listed.out) if row["name"] == "own"]
    assert row["help"].startswith(f"{file}:2: register_reward: ")
    assert MISTAKES[text] in row["help"]
    for words in (["train", "--reward", "mine"], ["list", "reward", "--import", str(file)]):
        outcome = mygym_command(*words)
        assert outcome.code == 2
        assert MISTAKES[text] in outcome.err
        assert outcome.err.count("\n") == 1
