"""`export`: description, verification, refusals; a file is kept only if it is verified."""

from __future__ import annotations

import contextlib
import hashlib
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from stable_baselines3.common.torch_layers import CombinedExtractor

import mygym
from mygym.algos.stable_baselines import SAC
from mygym.cli.main import main
from mygym.envs.robot_env import RobotEnv
from mygym.errors import ConfigError, RegistryError, RunError
from mygym.exporting import export
from mygym.exporting.export import TOLERANCE, Export
from mygym.exporting.exported_policy import ExportedPolicy
from mygym.exporting.playing import play
from mygym.planning.resolve import from_python
from mygym.registry import register_algorithm, register_features_extractor, registry
from mygym.training import directory, env_factory, model_factory
from mygym.training.files import write_yaml
from mygym.training.policy import normalizer_of, save_policy
from tests.components import small, wrong_observations


def save_run(folder: Path, config: dict[str, Any]) -> Path:
    """Write the directory of a run with an untrained policy."""
    resolved = from_python({"n_envs": 1, **config})
    with contextlib.closing(env_factory.make_vec_env(resolved.config)) as env:
        model = model_factory.build_model(resolved.config, env)
        save_policy(folder / directory.POLICY, model, normalizer_of(env))
    write_yaml(folder / directory.CONFIG, resolved.values())
    return folder


def test_an_export_is_verified(exported: Export) -> None:
    assert exported.path.is_file()
    assert exported.difference <= TOLERANCE
    assert exported.observations > 100


def test_the_description_names_everything_that_a_robot_needs(exported: Export, trained: Path) -> None:
    description = ExportedPolicy(exported.path).description
    with contextlib.closing(mygym.make_env(trained)) as env:
        joints = [joint["name"] for joint in description["robot"]["arms"][0]["joints"]]
        assert joints == [joint.name for joint in env.robot.joints]
        assert description["home"]["joint_position"] == env.world.home.tolist()
        slices = {
            each["name"]: slice(*each["slice"]) for each in description["observation"]["observation"]["components"]
        }
        assert slices == env.components
        shapes = {name: tuple(entry["shape"]) for name, entry in description["observation"].items()}
        assert shapes == {name: space.shape for name, space in env.observation_space.spaces.items()}
        assert tuple(description["action"]["shape"]) == env.action_space.shape
        assert [each["name"] for each in description["action"]["components"]] == list(env.world.control_names)
    first = description["observation"]["observation"]["components"][0]
    assert (first["name"], first["unit"], first["frame"]) == ("ee_position", "m", "world")
    assert description["control"]["name"] == "ee_delta"
    assert description["control"]["rate_hz"] == 25
    assert description["action"]["components"][0] == {
        "name": "ee_x",
        "unit": "m per control step",
        "low": -0.05,
        "high": 0.05,
    }
    assert description["config_hash"] == trained.parent.name
    assert description["versions"]["mygym"] == mygym.__version__


def test_the_description_of_flat_observations_covers_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(export, "TOGETHER", 2)
    tasks = {"tasks": ["reach", "push"], "identify": "one_hot"}
    config = {"algo": "ars", "n_envs": 2, "strategy": "multitask", "strategy_params": tasks}
    path = mygym.export(save_run(tmp_path, config)).path
    assert path == tmp_path / "policy.onnx"
    observation = ExportedPolicy(path).description["observation"]["observation"]
    columns = {component["name"]: component["slice"] for component in observation["components"]}
    starts, stops = zip(*columns.values(), strict=True)
    assert starts[0] == 0
    assert all(start >= stop for start, stop in zip(starts[1:], stops, strict=False))  # goals have unused numbers
    assert [stops[-1]] == observation["shape"]
    assert columns["variant"] == [stops[-1] - 2, stops[-1]]


@pytest.mark.parametrize("control", [entry.name for entry in registry("controller") if entry.built_in])
def test_ranges_of_action_components_are_those_of_the_commands(control: str) -> None:
    with contextlib.closing(RobotEnv("push", control=control)) as env:
        controller = env.world.controller
        ranges, joints, tool = controller.ranges, env.world.state.joint_position[0], env.world.state.ee_position[0]
        assert len(ranges) == len(controller.names)
        for value in (-1.0, 1.0):
            controller.reset(joints, tool)
            commanded = controller.command(np.full(len(ranges), value), joints, tool)
            expected = [limits.high if value > 0 else limits.low for limits in ranges]
            if controller.commands == "cartesian":
                if control == "ee_delta":
                    np.testing.assert_allclose(controller.ee_command - tool, expected[:3], atol=1e-9)
                else:
                    assert expected[:3] == (controller.high if value > 0 else controller.low).tolist()
            else:
                start = joints if ranges[0].unit.endswith("per control step") else 0
                np.testing.assert_allclose(commanded - start, expected, atol=1e-9)


def test_a_file_that_differs_from_its_policy_is_not_kept(tmp_path: Path) -> None:
    @register_algorithm("halved", framework="pytorch")
    class Halved(SAC):
        def predict(self, *args: Any, **kwargs: Any) -> Any:
            action, state = super().predict(*args, **kwargs)
            return 0.5 * action, state

    run = save_run(tmp_path, {"algo": "halved", "algo_params": {"policy_kwargs": {"net_arch": [16]}}})
    files = set(run.iterdir())
    with pytest.raises(RunError, match=r"policy.onnx: is not kept: .*0\..*at most 1e-05"):
        mygym.export(run)
    assert set(run.iterdir()) == files


def test_a_network_that_no_graph_can_express_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    @register_features_extractor("branching")
    class Branching(CombinedExtractor):
        def forward(self, observations: dict[str, torch.Tensor]) -> torch.Tensor:
            features = super().forward(observations)
            return features if features.sum().item() > 0 else -features

    params = {**small("sac"), "policy_kwargs": {"net_arch": [16], "features_extractor_class": "branching"}}
    run = save_run(tmp_path, {"algo": "sac", "algo_params": params})
    with pytest.raises(RunError, match="SACPolicy cannot be exported"):
        mygym.export(run)
    assert not (run / "policy.onnx").exists()
    assert capsys.readouterr().err == ""


@pytest.mark.slow
@pytest.mark.parametrize("algo", ["ppo", "crossq"])
def test_a_policy_of_jax_is_exported_and_verified(algo: str, tmp_path: Path) -> None:
    exported = mygym.export(save_run(tmp_path, {"algo": algo, "framework": "jax"}))
    assert exported.difference <= TOLERANCE
    assert ExportedPolicy(exported.path).description["framework"] == "jax"


@pytest.mark.slow
def test_a_file_of_torch_export_acts_as_the_policy_and_needs_trust(trained: Path, tmp_path: Path) -> None:
    file = mygym.export(trained, tmp_path / "reach.pt2")
    assert file.difference <= TOLERANCE
    assert b"/exporting/" not in file.path.read_bytes()  # no path of this machine
    with pytest.raises(ConfigError, match=r"reach.pt2' holds pickles, .*; allowed: --trust"):
        ExportedPolicy(file.path)
    policy = ExportedPolicy(file.path, trust=True)
    assert policy.description["algo"] == "bc"
    assert play(file.path, episodes=2, trust=True)[0].episodes


def test_the_checksum_is_that_of_the_weights_of_the_run(exported: Export, trained: Path) -> None:
    weights = ExportedPolicy(exported.path).description["weights"]
    assert weights["file"] == directory.POLICY
    assert weights["sha256"] == hashlib.sha256((trained / directory.POLICY).read_bytes()).hexdigest()


@pytest.mark.parametrize("package", ["onnx", "onnxruntime", "onnxscript"])
def test_a_missing_package_is_named_with_the_command_that_installs_it(
    package: str, monkeypatch: pytest.MonkeyPatch, trained: Path, tmp_path: Path
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(RegistryError, match=rf'{package}.*pip install "mygym\[export\]"'):
        mygym.export(trained, tmp_path / "reach.onnx")


def test_an_existing_file_needs_force(
    trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "reach.onnx"
    file.write_bytes(b"older")
    with pytest.raises(SystemExit) as end:
        main(["export", str(trained), "-o", "reach.onnx"])
    assert end.value.code == 2
    assert "--out: 'reach.onnx' exists already; allowed: a new file, or --force" in capsys.readouterr().err
    assert file.read_bytes() == b"older"
    with pytest.raises(SystemExit) as end:
        main(["export", str(trained), "-o", "reach.onnx", "--force"])
    assert not end.value.code
    assert "largest difference" in capsys.readouterr().out
    assert ExportedPolicy(file).description["algo"] == "bc"


def test_a_wrong_observation_is_refused(exported: Export) -> None:
    policy = ExportedPolicy(exported.path)
    right = {name: np.zeros(entry["shape"], np.float32) for name, entry in policy.description["observation"].items()}
    policy.predict(right)
    for wrong, words in wrong_observations(right):
        with pytest.raises(ConfigError) as error:
            policy.predict(wrong)
        assert all(word in str(error.value) for word in ("observation", "allowed: ", *words)), error.value
