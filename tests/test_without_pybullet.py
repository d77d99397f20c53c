"""A Python without PyBullet: MuJoCo trains and judges, numpy draws, and what needs PyBullet is refused by name."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

# `None` makes every import of the module fail, as if it was not installed.
PROGRAM = """\
import sys
sys.modules["pybullet"] = sys.modules["pybullet_data"] = None
import json
import gymnasium
import mygym
from mygym.checks.parity import compare_engines
from mygym.errors import MygymError
from mygym.registry import registry

def refused(call):
    try:
        call()
    except MygymError as error:
        return str(error)

config = {"task": "reach", "algo": "ppo", "steps": 64, "n_envs": 2, "tensorboard": False, "logdir": "runs"}
config |= {"algo_params": {"n_steps": 32, "batch_size": 32, "n_epochs": 1}, "eval": {"episodes": 2}}
config |= {"video": {"episodes": 1, "width": 64, "height": 48}}
result = mygym.train(config)
images = {"observations": ["image", "ee_position"], "image_params": {"width": 36, "height": 36}}
seeing = mygym.train(config | images | {"eval": {"episodes": 1, "final_episodes": 1}, "video": {"episodes": 0}})
oracle = mygym.evaluate(policy="oracle", config={"task": "pick_and_place"}, episodes=2)
env = gymnasium.make("mygym/OpenDoor-v0", render_mode="rgb_array", render_width=64, render_height=48)
env.reset(seed=0)
placed = {"robot_params": {"home": [0.0, -0.3, 0.0, -2.2, 0.0, 2.0, 0.8]}}
print(json.dumps({
    "result": json.loads((result.path / "result.json").read_text()),
    "seeing": [seeing.status, seeing.engine, seeing.steps],
    "films": [path.name for path in (result.path / "videos").iterdir()],
    "oracle": [oracle.engine, oracle.success_rate],
    "colors": len({tuple(pixel) for pixel in env.render().reshape(-1, 3).tolist()}),
    "home": refused(lambda: gymnasium.make("mygym/Reach-v0", **placed).close()),
    "engine": refused(lambda: mygym.train(config | {"engine": "pybullet"})),
    "parity": refused(lambda: compare_engines({"task": "reach"}, 1, 0, "mujoco")),
    "robot": refused(lambda: gymnasium.make("mygym/Reach-v0", robot="xarm6")),
    "window": refused(lambda: gymnasium.make("mygym/Reach-v0", render_mode="human").reset()),
    "missing": sorted(entry.name for kind in ("engine", "robot", "object") for entry in registry(kind)
                      if "pybullet" in entry.missing_extras),
}))
"""


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        cwd=tmp_path_factory.mktemp("without"),
        env={"PYTHONPATH": str(Path(__file__).parents[1]), "PATH": "", "CUDA_VISIBLE_DEVICES": ""},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    printed: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    assert "mujoco, because PyBullet is not installed" in done.stdout + done.stderr
    return printed


def test_mujoco_trains_and_judges(seen: dict[str, Any]) -> None:
    result = seen["result"]
    assert (result["status"], result["engine"], result["judge"]) == ("done", "mujoco", "mujoco")
    assert seen["oracle"] == ["mujoco", 1.0]
    assert seen["seeing"] == ["done", "mujoco", 64]
    assert seen["home"] is None


def test_pictures_and_films_are_drawn(seen: dict[str, Any]) -> None:
    assert any(name.endswith(".mp4") for name in seen["films"])
    assert seen["colors"] > 100


def test_what_needs_pybullet_is_refused_by_name(seen: dict[str, Any]) -> None:
    assert "engine: 'pybullet' needs the package pybullet" in seen["engine"]
    assert "mujoco" in seen["engine"]
    assert "needs the package pybullet" in seen["parity"]
    assert "pybullet_data/xarm/" in seen["robot"]
    assert "is part of PyBullet, which is not installed" in seen["robot"]
    assert "render_mode" in seen["window"]
    assert "PyBullet" in seen["window"]
    assert seen["missing"] == ["duck", "pybullet", "xarm6", "xarm6_gripper"]
