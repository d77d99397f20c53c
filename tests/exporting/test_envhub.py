"""`env.py` for LeRobot's EnvHub: its environments, its refusals, and the loader of LeRobot."""

from __future__ import annotations

import contextlib
import json
import os
import runpy
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gymnasium.vector import SyncVectorEnv, VectorEnv

import mygym
from mygym.cli.main import main
from mygym.errors import ConfigError
from mygym.exporting.envhub import write_env
from mygym.planning.plan import make_plan
from tests.conftest import ROOT

CONFIG: dict[str, Any] = {
    "task": "push",
    "algo": "dagger",
    "control": {"name": "ee_delta", "step": 0.02},
    "observations": ["image", "image:wrist", "joint_position", "gripper_width"],
    "image_params": {"width": 48, "height": 40},
    "task_params": {"horizon": 6, "starts": {"at_object": 1.0}},
    "video": {"width": 64, "height": 48},
}


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("repository") / "env.py"
    assert write_env(make_plan(CONFIG), path) == []
    return path


def load(file: Path, n_envs: int) -> dict[int, VectorEnv[Any, Any, Any]]:
    suites = runpy.run_path(str(file))["make_env"](n_envs=n_envs, use_async_envs=False)
    assert list(suites) == ["mygym"]
    return dict(suites["mygym"])


def test_environments_have_what_lerobot_asks_for(file: Path) -> None:
    envs = load(file, 2)
    with contextlib.closing(envs[0]) as env, contextlib.closing(mygym.make_env(CONFIG)) as same:
        assert list(envs) == [0]
        assert isinstance(env, SyncVectorEnv)
        observation, _ = env.reset(seed=[3, 4])
        expected, _ = same.reset(seed=4)
        np.testing.assert_array_equal(observation["agent_pos"][1], expected["observation"])
        np.testing.assert_array_equal(observation["pixels"]["wrist"][1], expected["image:wrist"])
        assert observation["pixels"]["main"].shape == (2, 40, 48, 3)
        assert env.call("_max_episode_steps") == (6, 6)
        assert env.call("task_description") == ("approach the cube, push it to the goal",) * 2
        assert env.call("task") == ("push",) * 2
        assert env.metadata["render_fps"] == 25
        assert np.stack(env.call("render")).shape == (2, 48, 64, 3)
        action = np.ones(env.action_space.shape, dtype=np.float32)
        for _ in range(6):
            observation, _, terminated, truncated, info = env.step(action)
            expected, *_ = same.step(action[1])
        assert (terminated | truncated).all()
        np.testing.assert_array_equal(info["final_info"]["is_success"], [False, False])
        np.testing.assert_array_equal(info["final_obs"][1]["agent_pos"], expected["observation"])


def test_a_run_of_several_tasks_is_a_suite_of_several_tasks(tmp_path: Path) -> None:
    plan = make_plan({"strategy": "multitask", "strategy_params": {"tasks": ["reach", "push"]}})
    write_env(plan, tmp_path / "env.py")
    envs = load(tmp_path / "env.py", 1)
    assert [env.call("task") for env in envs.values()] == [("reach",), ("push",)]
    for env in envs.values():
        observation, _ = env.reset(seed=0)
        assert set(observation) == {"agent_pos", "environment_state"}
        env.close()


@pytest.mark.parametrize("format", ["lerobot", "minari"])
def test_a_data_set_has_environments_for_the_policies_that_learn_from_it(
    format: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    dataset, path = tmp_path / "reach", tmp_path / "env.py"
    mygym.demonstrate({"task": "reach", "task_params": {"horizon": 31}}, out=dataset, episodes=1, format=format)
    with pytest.raises(SystemExit) as end:
        main(["export", str(dataset), "--format", "envhub", "-o", str(path)])
    assert not end.value.code
    assert f"file: {path}" in capsys.readouterr().out
    (env,) = load(path, 1).values()
    with contextlib.closing(env):
        assert env.call("_max_episode_steps") == (31,)


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ({"algo": "dqn"}, ["actions.discrete", "continuous"]),
        ({"robot": str(ROOT / "envs" / "robots" / "desk_arm.yaml")}, ["robot", "desk_arm.yaml", "this computer"]),
        ({"observations": ["segmentation", "joint_position"]}, ["observations", "segmentation"]),
        (
            {"image_params": {"width": 47, "height": 40}, "observations": ["image"]},
            ["image_params.width", "47", "even"],
        ),
    ],
)
def test_environments_that_others_cannot_use_are_refused(
    config: dict[str, Any], words: list[str], tmp_path: Path
) -> None:
    with pytest.raises(ConfigError) as error:
        write_env(make_plan({"algo": "dagger", **config}), tmp_path / "new" / "env.py")
    assert all(word in str(error.value) for word in words), str(error.value)
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


def test_components_of_the_user_are_named(tmp_path: Path) -> None:
    notes = write_env(make_plan({"task": "lift"}), tmp_path / "env.py")
    assert [note.partition(" is of ")[0] for note in notes] == ["task lift"]
    assert str(ROOT) not in (tmp_path / "env.py").read_text()


def test_the_source_is_a_run_or_a_data_set(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        main(["export", str(tmp_path), "--format", "envhub"])
    assert end.value.code == 2
    assert f"run: '{tmp_path}' is not a run directory" in capsys.readouterr().err


PACKAGES = ("lerobot==0.4.4", "einops", "huggingface-hub<0.36", "draccus==0.10.0", "mergedeep", "typing-inspect")
PACKAGES += (
    "mypy-extensions",
    "pyyaml-include<2",
    "termcolor",
    "toml",
    "pyserial",
    "deepdiff",
    "orderly-set",
    "cachebox",
)
PACKAGES += ("tqdm", "jsonlines", "attrs", "packaging", "pyarrow", "datasets==4.0.0", "dill", "multiprocess", "xxhash")
PACKAGES += ("fsspec", "safetensors", "filelock", "accelerate", "pandas", "torchvision==0.28.0", "av<16", "imageio")
PACKAGES += ("diffusers<0.36",)
"""LeRobot, and what its loader and its rollouts import; its other requirements exclude today's torch."""

LOADER = """
import json, sys
import numpy as np
import torch

library = torch.library.Library("torchvision", "DEF")  # torchvision's own operators need another torch
for name in ("nms", "qnms"):
    library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")

from lerobot.envs.factory import make_env
from lerobot.scripts.lerobot_eval import rollout


class Still(torch.nn.Module):
    def reset(self):
        pass

    def select_action(self, observation):
        assert observation["task"] == ["approach the cube, push it to the goal"] * 2
        return torch.zeros(2, action_size)


def same(values):
    return values


try:
    make_env("me/arms", hub_cache_dir=sys.argv[1])
    refused = False
except RuntimeError:
    refused = True
env = make_env("me/arms", n_envs=2, hub_cache_dir=sys.argv[1], trust_remote_code=True)["mygym"][0]
action_size = env.single_action_space.shape[0]
played = rollout(env, Still(), same, same, same, same, seeds=[1, 2], return_observations=True)
env.close()
env = make_env("me/arms", n_envs=2, use_async_envs=True, hub_cache_dir=sys.argv[1], trust_remote_code=True)["mygym"][0]
observation, _ = env.reset(seed=[1, 2])
env.close()
first = played["observation"]["observation.state"][:, 0].numpy()
shapes = {name: list(values.shape) for name, values in played["observation"].items() if hasattr(values, "shape")}
result = {"refused": refused, "shapes": shapes, "done": played["done"].tolist(), "success": played["success"].tolist()}
print(json.dumps({**result, "same": bool((observation["agent_pos"] == first).all())}))
"""


@pytest.mark.slow
def test_lerobot_loads_and_plays_the_environments(file: Path, tmp_path: Path) -> None:
    """In a separate environment, which has the packages of this environment as well; downloads 150 MB."""
    environment = tmp_path / "environment"
    subprocess.run([sys.executable, "-m", "venv", environment], check=True)
    python = environment / "bin" / "python"
    purelib = subprocess.check_output(
        [python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"], text=True
    )
    here = [path for path in sys.path if Path(path).name == "site-packages"]
    (Path(purelib.strip()) / "parent.pth").write_text("\n".join([*here, str(ROOT)]))
    subprocess.run([python, "-m", "pip", "install", "--quiet", "--no-deps", *PACKAGES], check=True)
    hub = tmp_path / "hub" / "models--me--arms"
    (hub / "refs").mkdir(parents=True)
    (hub / "refs" / "main").write_text("0" * 40)
    (hub / "snapshots" / ("0" * 40)).mkdir(parents=True)
    (hub / "snapshots" / ("0" * 40) / "env.py").write_text(file.read_text())
    (tmp_path / "loader.py").write_text(LOADER)
    offline = {**os.environ, "HF_HUB_OFFLINE": "1", "HF_HOME": str(tmp_path / "home"), "OMP_NUM_THREADS": "1"}
    command = [python, tmp_path / "loader.py", hub.parent]
    done = subprocess.run(command, cwd=tmp_path, env=offline, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    result = json.loads(done.stdout.splitlines()[-1])
    assert (result["refused"], result["same"]) == (True, True)
    assert result["shapes"] == {
        "observation.images.main": [2, 7, 3, 40, 48],
        "observation.images.wrist": [2, 7, 3, 40, 48],
        "observation.state": [2, 7, 8],
    }
    assert result["done"] == [[False] * 5 + [True]] * 2
    assert result["success"] == [[False] * 6] * 2
