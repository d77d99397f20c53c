"""Recipes of the built-in algorithms: names in the files, bases, sections for JAX, and reading at the first use."""

from __future__ import annotations

from pathlib import Path

import pytest

from mygym.algos.defaults import RECIPES, SECTIONS, Section, recipe
from mygym.cli.main import main
from mygym.config import load_file
from mygym.registry import algorithm
from tests.components import COMBOS


def test_every_built_in_algorithm_has_a_recipe_and_every_recipe_an_algorithm() -> None:
    files = {path.stem for path in RECIPES.glob("*.yaml")}
    assert files == {name for name, framework in COMBOS if isinstance(algorithm(name, framework).defaults, Section)}


@pytest.mark.parametrize("path", sorted(RECIPES.glob("*.yaml")), ids=lambda path: path.stem)
def test_a_recipe_has_known_sections(path: Path) -> None:
    content = load_file(path)
    assert content.keys() <= {*SECTIONS, "base", "jax"}
    assert content.get("jax", {}).keys() <= set(SECTIONS)


def test_a_recipe_has_the_sections_of_its_base_that_it_does_not_state() -> None:
    ppo, multippo = algorithm("ppo"), algorithm("multippo")
    assert (
        ppo.defaults == multippo.defaults == {"n_steps": 128, "batch_size": 128, "learning_rate": 1e-3, "gamma": 0.95}
    )
    assert (multippo.run_defaults["strategy"], len(multippo.task_defaults)) == ("mixture", 0)
    assert ppo.task_defaults["stack"]["control"] == {"name": "ee_delta", "step": 0.015}
    assert algorithm("dagger").engine_defaults["fused"]["training_params"] == {"rollout_steps": 10}


def test_a_recipe_may_differ_in_jax() -> None:
    assert algorithm("ppo", "jax").defaults == {**algorithm("ppo").defaults, "policy_kwargs": {"ortho_init": True}}
    assert algorithm("ddpg", "jax").defaults["qf_learning_rate"] is None
    assert "qf_learning_rate" not in algorithm("ddpg").defaults
    assert algorithm("ddpg", "jax").search_space["action_noise"] == {"uniform": [0.05, 0.4]}, "of td3, the base"


def test_a_list_reads_no_recipe(capsys: pytest.CaptureFixture[str]) -> None:
    recipe.cache_clear()
    with pytest.raises(SystemExit, match="0"):
        main(["list", "algo"])
    assert "trust region" in capsys.readouterr().out
    assert recipe.cache_info().misses == 0
    assert algorithm("trpo").search_space["gamma"] == {"choice": [0.9, 0.95, 0.98, 0.99]}
    assert recipe.cache_info().misses == 2, "trpo and its base"
