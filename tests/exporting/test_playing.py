"""Exported policies in PyBullet: without torch, with the run's success; files that are none."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mygym
from mygym.cli.main import main
from mygym.errors import ConfigError, MygymError, RegistryError
from mygym.exporting.export import Export
from mygym.exporting.exported_policy import METADATA, ExportedPolicy
from mygym.exporting.playing import Timing, measure, play
from mygym.nested import at
from mygym.registry import resolve
from mygym.training.evaluation import Evaluation
from tests.conftest import ROOT

EPISODES = 30

PLAY = """
import sys
from mygym.cli.main import main
try:
    main(["run", *sys.argv[1:]])
finally:
    imported = sorted({"torch", "onnx", "stable_baselines3", "jax"} & set(sys.modules))
    print(imported, file=sys.stderr)
"""


def test_a_file_is_played_without_torch_with_the_success_of_the_run(exported: Export, trained: Path, python) -> None:
    done = python("-c", PLAY, str(exported.path), "--episodes", str(EPISODES), "--json")
    assert (done.returncode, done.stderr) == (0, "[]\n")
    outcome = json.loads(done.stdout)
    low, high = outcome["interval"]
    evaluation = mygym.evaluate(trained, episodes=EPISODES)
    assert 0 < evaluation.success_rate < 1  # success depends on the policy
    assert low <= evaluation.success_rate <= high
    assert abs(outcome["success_rate"] - evaluation.success_rate) <= 1 / EPISODES  # a bit may decide an episode
    assert 0 < outcome["latency_us"]["median"] <= outcome["latency_us"]["percentile_99"]


def test_periods_that_are_late_are_those_of_policy_and_simulator_together() -> None:
    policy, simulator = np.array([0.03, 0.03, 0.05, 0.01]), np.array([0.02, 0.005, 0.0, 0.03])
    timing = Timing(period=0.045, periods=np.full(3, 0.045), policy=policy, simulator=simulator)
    assert timing.late == 2


def test_the_command_prints_success_and_latency(exported: Export, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        main(["run", str(exported.path), "--episodes", "2"])
    assert not end.value.code
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == ["episodes", "success_rate", "latency"]
    assert "median" in lines[2]


def test_a_closed_loop_keeps_its_period_and_reports_the_durations(
    exported: Export, capsys: pytest.CaptureFixture[str]
) -> None:
    timing = measure(exported.path, 1.4)
    assert timing.period == 0.04
    assert len(timing.policy) == len(timing.simulator) == 35  # longer than an episode
    assert len(timing.periods) < 34  # without the period of a reset
    assert timing.periods.sum() > 0.9 * 0.04 * len(timing.periods)  # it waits; a busy machine is later
    assert (timing.policy > 0).all()
    with pytest.raises(SystemExit) as end:
        main(["view", "policy", str(exported.path), "--record-latency", "--seconds", "0.2"])
    assert not end.value.code
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "rate        25 Hz, 5 periods"
    assert [line.split()[0] for line in lines[1:]] == ["period", "policy", "simulator", "jitter", "late"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ["policy", "a.onnx"],
            "view: 'policy' cannot be drawn; allowed: --record-latency, or `mygym run a.onnx --gui`",
        ),
        (["policy", "a.onnx", "--record-latency", "--seconds", "0"], "--seconds: '0' is not allowed"),
        (["policy", "a.onnx", "--record-latency"], "file: 'a.onnx' does not exist"),
        (["task", "push", "--record-latency"], "--record-latency: True is not for task; allowed: policy"),
    ],
)
def test_a_closed_loop_needs_a_policy_and_a_duration(
    words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as end:
        main(["view", *words])
    assert end.value.code == 2
    assert message in capsys.readouterr().err


def test_a_missing_onnxruntime_is_named_with_the_command_that_installs_it(
    exported: Export, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(RegistryError, match=r'needs the package .onnxruntime.: pip install "mygym\[export\]"'):
        play(exported.path)


def test_a_window_needs_a_display(exported: Export, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DISPLAY", raising=False)
    with pytest.raises(ConfigError, match="gui: True"):
        play(exported.path, gui=True)


def assert_equal_episodes(evaluation: Evaluation, other: Evaluation) -> None:
    """Check that two policies played the same episodes, except for the last bits of their actions."""
    for episode, expected in zip(evaluation.episodes, other.episodes, strict=True):
        assert (episode.seed, episode.task, episode.length) == (expected.seed, expected.task, expected.length)
        assert episode.distance == pytest.approx(expected.distance, abs=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("algo", "network"), [("dagger", None), ("ppo", None), ("sac", "drq"), ("ppo", "resnet"), ("td3", "keypoints")]
)
def test_images_are_inputs_as_the_environment_gives_them(algo: str, network: str | None, tmp_path: Path) -> None:
    from tests.exporting.test_export import save_run

    images = {"observations": ["image", "ee_position"], "image_params": {"width": 64, "height": 64}}
    params = {} if network is None else {"policy_kwargs": {"features_extractor_class": network}}
    file = mygym.export(save_run(tmp_path, {"algo": algo, "algo_params": params, **images})).path
    described = ExportedPolicy(file).description["observation"]["image"]
    assert (described["shape"], described["dtype"]) == ([64, 64, 3], "uint8")
    assert described["components"] == [{"name": "image", "unit": "1/255", "camera": "main"}]
    assert_equal_episodes(play(file, episodes=2)[0], mygym.evaluate(tmp_path, episodes=2))


@pytest.mark.slow
def test_several_tasks_are_played_with_their_codes(tmp_path: Path) -> None:
    from tests.exporting.test_export import save_run

    tasks = {"strategy": "multitask", "strategy_params": {"tasks": ["reach", "push"]}, "algo": "ppo"}
    file = mygym.export(save_run(tmp_path, {**tasks, "n_envs": 2})).path
    evaluation = play(file, episodes=2)[0]
    assert_equal_episodes(evaluation, mygym.evaluate(tmp_path, episodes=2))
    assert {episode.task for episode in evaluation.episodes} == {"reach", "push"}


def test_damaged_files_are_refused(exported: Export, tmp_path: Path) -> None:
    content = exported.path.read_bytes()
    for name, damaged in {"empty": b"", "half": content[: len(content) // 2], "text": b"user text" * 50}.items():
        file = tmp_path / f"{name}.onnx"
        file.write_bytes(damaged)
        with pytest.raises(ConfigError, match=rf"file: '.*{name}.onnx' (cannot be read|is not an exported policy)"):
            play(file)


def test_other_models_are_refused(exported: Export, tmp_path: Path) -> None:
    model = resolve("onnx:load")(exported.path)
    description = json.loads(model.metadata_props[0].value)
    texts = {
        "is not an exported policy": ["{", "[]", "{}", None],
        "has a description of version 9": [json.dumps({**description, "version": 9})],
    }
    for message, values in texts.items():
        for value in values:
            del model.metadata_props[:]
            if value is not None:
                model.metadata_props.add(key=METADATA, value=value)
            file = tmp_path / "model.onnx"
            file.write_bytes(model.SerializeToString())
            with pytest.raises(ConfigError, match=message):
                ExportedPolicy(file)


def edited(exported: Export, change: Callable[[Any], object], file: Path) -> Path:
    """Write an exported policy with another description."""
    model = resolve("onnx:load")(exported.path)
    description = json.loads(model.metadata_props[0].value)
    change(description)
    del model.metadata_props[:]
    model.metadata_props.add(key=METADATA, value=json.dumps(description))
    file.write_bytes(model.SerializeToString())
    return file


def test_an_environment_that_has_changed_is_refused(exported: Export, tmp_path: Path) -> None:
    file = edited(exported, lambda described: described["env"]["arguments"][0].update(task="push"), tmp_path / "a.onnx")
    with pytest.raises(ConfigError, match=r"^file: .*a\.onnx"):
        play(file)


def test_modules_that_a_file_names_are_imported_only_with_trust(
    exported: Export, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "strange_module.py").write_text("import pathlib; pathlib.Path('executed').touch()\n")
    monkeypatch.chdir(tmp_path)
    file = edited(exported, lambda described: described["env"].update(imports=["strange_module"]), tmp_path / "a.onnx")
    message = r"names modules that would be imported, .*: strange_module; allowed: --trust .* or --import MODULE"
    with pytest.raises(ConfigError, match=message):
        play(file)
    assert not Path("executed").exists()
    play(file, episodes=1, trust=True)
    assert Path("executed").exists()
    play(file, episodes=1)  # the user has imported it
    monkeypatch.delitem(sys.modules, "strange_module")


def test_the_document_code_needs_onnxruntime_alone(exported: Export, tmp_path: Path, python) -> None:
    """The program of a robot, as in docs/export.md."""
    text = (ROOT / "docs" / "export.md").read_text(encoding="utf-8")
    code = text.partition("```python\n")[2].partition("```")[0]
    (tmp_path / "reach.onnx").write_bytes(exported.path.read_bytes())
    done = python("-c", f"{code}\nimport sys\nprint(sorted({{'torch', 'mygym', 'pybullet'}} & set(sys.modules)))")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines()[-1] == "[]"


@pytest.mark.parametrize("form", [np.float64, np.ndarray.tolist])
def test_observations_of_other_types_are_converted(form: Any, exported: Export) -> None:
    policy = ExportedPolicy(exported.path)
    shapes = {name: entry["shape"] for name, entry in policy.description["observation"].items()}
    given = {name: np.full(shape, 0.25, np.float32) for name, shape in shapes.items()}
    action, _ = policy.predict({name: form(values) for name, values in given.items()})
    np.testing.assert_array_equal(action, policy.predict(given)[0])


def test_predictions_do_not_depend_on_the_batch(exported: Export) -> None:
    policy = ExportedPolicy(exported.path)
    shapes = {name: entry["shape"] for name, entry in policy.description["observation"].items()}
    rng = np.random.default_rng(0)
    batch = {name: rng.standard_normal((5, *shape)).astype(np.float32) for name, shape in shapes.items()}
    together, _ = policy.predict(batch)
    for row in range(5):
        alone, _ = policy.predict({name: values[row] for name, values in batch.items()})
        np.testing.assert_allclose(alone, together[row], rtol=0, atol=1e-6)


@pytest.mark.parametrize(
    ("key", "value", "allowed"),
    [
        ("env", 5, "a list of text"),
        ("env.imports", 5, "a list of text"),
        ("env.arguments", [5], "a list of a mapping"),
        ("env.labels", None, "a list of text"),
        ("env.codes", "x", "a list of a list of a number"),
        ("observation", [1], "a mapping of text: a mapping"),
        ("observation", {"observation": 5}, "a mapping of text: a mapping"),
        ("observation", {"observation": {"shape": "x"}}, "the shapes"),
        ("action", 5, "a mapping"),
        ("control", {}, "a number"),
        ("control.rate_hz", 0, "a number"),
        ("robot.arms", {}, "a list of a mapping"),
        ("home.joint_position", "x", "a list of a number"),
        ("env.arguments", [{"task": "reech"}], "did you mean 'reach'"),
    ],
)
def test_a_damaged_description_is_refused(key: str, value: Any, allowed: str, exported: Export, tmp_path: Path) -> None:
    model = resolve("onnx:load")(exported.path)
    description = json.loads(model.metadata_props[0].value)
    *above, last = key.split(".")
    at(description, tuple(above))[last] = value
    model.metadata_props[0].value = json.dumps(description)
    file = tmp_path / "damaged.onnx"
    file.write_bytes(model.SerializeToString())
    with pytest.raises(MygymError) as error:
        play(file, episodes=1)
    assert error.value.exit_code == 2
    assert key.partition(".")[0] in str(error.value) or "reach" in str(error.value)
    assert allowed in str(error.value), error.value
