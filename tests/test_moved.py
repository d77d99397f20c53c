"""Files, commands and runs from before the modules, the keys of configs and the flags had their names."""

from __future__ import annotations

import shutil
from importlib import import_module
from pathlib import Path

import pytest
from stable_baselines3 import PPO

import mygym
from mygym.cli import main
from mygym.config import RunConfig, load_file
from mygym.config.schema import note_former
from mygym.errors import ConfigError
from mygym.moved import NAMES
from mygym.planning.plan import make_plan, plan_from_python, plan_or_mistakes
from mygym.sweeps.settings import make_sweep
from tests.conftest import ROOT

RUNS = ROOT / "tests" / "runs_of_0_1"
"""Interrupted runs that version 0.1.0 wrote."""


def test_former_names_of_modules_import_the_same_objects() -> None:
    for module, name, now in [
        ("mygym.runs.runner", "Runner", "mygym.training.runner"),
        ("mygym.runs.loop", "Loop", "mygym.training.runner"),
        ("mygym.runs.curves", "Curves", "mygym.training.result"),
        ("mygym.runs.callbacks", "register_callback", "mygym.planning.callbacks"),
        ("mygym.runs.planning.resolve_config", "from_python", "mygym.planning.resolve"),
        ("mygym.models.controllers", "EndEffectorDelta", "mygym.robotics.controllers.end_effector"),
        ("mygym.models.controllers.lookup", "find_controller", "mygym.robotics.controllers.controller"),
        ("mygym.models.robot_spec", "RobotSpec", "mygym.robotics.robot_spec"),
        ("mygym.envs.observation_spec", "ObservationSpec", "mygym.envs.observation_builder"),
        ("mygym.tasks.goal_terms", "GoalTerm", "mygym.tasks.predicates"),
        ("mygym.checks.teaching", "measure", "mygym.checks.stages"),
        ("mygym.reporting.selection", "select_runs", "mygym.reporting.comparison"),
        ("mygym.sim.robot_lookup", "find_robot", "mygym.robotics.robot"),
        ("mygym.tasks.episode_context", "EpisodeContext", "mygym.tasks.episode"),
        ("mygym.sim.world", "World", "mygym.engines.world"),
        ("mygym.fused.world", "BatchWorld", "mygym.engines.fused.world"),
        ("mygym.perception.encoder", "load_encoder", "mygym.vision.encoder"),
        ("mygym.envs.fused_envs", "FusedEnvs", "mygym.envs.batch_env"),
        ("mygym.envs.fused_vec_env", "FusedVecEnv", "mygym.envs.batch_vec_env"),
        ("mygym.fused.arrays", "find_arrays", "mygym.engines.arrays"),
    ]:
        former = getattr(import_module(module), name)
        assert former is getattr(import_module(now), NAMES.get(name, name))
        assert former.__module__ == now


def test_a_former_module_that_is_gone_is_an_import_error() -> None:
    with pytest.raises(ModuleNotFoundError, match="nonsense"):
        import_module("mygym.runs.nonsense")


@pytest.mark.parametrize("algo", ["ppo", "sac", "mixture"])
def test_runs_of_before_continue(algo: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    note_former.cache_clear()
    run = tmp_path / algo
    shutil.copytree(RUNS / algo, run)
    before = mygym.results(tmp_path)[0]
    assert before.status == "interrupted"
    result = mygym.train(resume=run)
    assert (result.status, result.path) == ("done", run)
    assert result.steps >= 256
    assert mygym.evaluate(run, episodes=2).episodes[1].length > 0
    assert load_file(run / "config.yaml")["learners"] == 1  # written anew
    assert "is called" not in capsys.readouterr().err  # nobody has typed the former keys


def test_stable_baselines_loads_models_of_before() -> None:
    """They name classes by their former modules."""
    assert PPO.load(RUNS / "ppo" / "model.zip").policy.state_dict()


# Keys and flags -------------------------------------------------------------------------------------------------------

FORMER = {"workers": 2, "subprocesses": 0}
NOTES = ["note: workers is called learners now", "note: subprocesses is called env_processes now"]
NOW = {"learners": 2, "env_processes": 0}


@pytest.fixture(autouse=True)
def each_note_again() -> None:
    note_former.cache_clear()


def test_former_keys_give_the_same_plan_and_one_note_each(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    expected = make_plan(overrides={"algo": "ppo", **NOW}).resolved
    assert (expected.config.learners, expected.config.env_processes) == (2, 0)
    assert capsys.readouterr().err == ""
    for plan in (
        make_plan({"algo": "ppo", "learners": 4, "env_processes": "auto"}, FORMER),
        make_plan({"algo": "ppo", "workers": 4, "subprocesses": "auto"}, NOW),
        plan_from_python({"algo": "ppo", **FORMER}),
        plan_from_python(RunConfig.model_validate({"algo": "ppo", **FORMER})),
        plan_or_mistakes({"algo": "ppo", **FORMER}, {})[0],
    ):
        assert plan is not None
        assert plan.resolved.values() == expected.values()
    assert capsys.readouterr().err.splitlines() == NOTES
    assert make_plan({"algo": "ppo", "workers": 2}).resolved.origin("learners") == "file"
    sweep = make_sweep({"workers": 1, "subprocesses": 0}, {"learners": {"grid": [1, 2]}})
    assert (sweep.parameters[0].key, sweep.base) == ("learners", {"env_processes": 0})


@pytest.mark.parametrize(
    ("words", "notes"),
    [
        (["--workers", "2", "--set", "env_processes=0"], ["note: --workers is called --learners now"]),
        (["--set", "workers=2", "--set", "subprocesses=0"], NOTES),
        (["--config", "former.yaml"], NOTES),
        (["--config", "former.yaml", "--learners", "2"], NOTES),
    ],
)
def test_commands_of_before(
    words: list[str],
    notes: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("former.yaml").write_text("workers: 2\nsubprocesses: 0\n")
    with pytest.raises(SystemExit) as end:
        main.main(["train", "--algo", "ppo", *words, "--explain"])
    out, err = capsys.readouterr()
    assert (end.value.code, err.splitlines()) == (0, notes)
    rows = dict(line.split()[:2] for line in out.splitlines() if line.startswith(("learners ", "env_processes ")))
    assert rows == {"learners": "2", "env_processes": "0"}


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (["train", "--workers", "2", "--learners", "2"], ["--workers", "--learners"]),
        (["train", "--set", "workers=2", "--set", "learners=2"], ["workers: 2", "learners"]),
        (["train", "--config", "both.yaml"], ["subprocesses: 0", "env_processes"]),
        (["sweep", "--workers", "2", "--jobs", "2", "--space", "default"], ["--workers", "--jobs"]),
    ],
)
def test_a_key_under_both_names_is_refused(
    words: list[str],
    named: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("both.yaml").write_text("subprocesses: 0\nenv_processes: 0\n")
    with pytest.raises(SystemExit) as end:
        main.main(words)
    line = capsys.readouterr().err.splitlines()[-1]
    assert end.value.code == 2
    assert line.startswith("error: ")
    assert all(name in line for name in named)
    assert [path.name for path in tmp_path.iterdir()] == ["both.yaml"]


def test_a_call_with_both_names_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"^workers: 2 .*allowed: learners alone"):
        mygym.train({"algo": "ppo", "workers": 2, "learners": 2})
    assert plan_or_mistakes({"algo": "ppo", "workers": 2, "learners": 2}, {})[1][0].startswith("workers: 2 ")


def test_mistakes_of_former_keys_are_listed_beside_others() -> None:
    mistakes = plan_or_mistakes({"algo": "ppo", "workers": 0, "seed": -1}, {})[1]
    assert sorted(mistake.partition(":")[0] for mistake in mistakes) == ["learners", "seed"]


def test_runs_are_selected_by_both_names() -> None:
    for key in ("workers", "learners"):
        assert len(mygym.results(RUNS, where={key: 1})) == 3


def test_sweeps_take_workers_as_jobs(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        main.main(["sweep", "--space", "default", "--workers", "none"])
    note, error = capsys.readouterr().err.splitlines()
    assert (end.value.code, note) == (2, "note: --workers is called --jobs now")
    assert error.startswith("error: --jobs: 'none'")
