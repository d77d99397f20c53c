"""The window on a virtual screen (Xvfb): robot, caption, sliders; the training that it shows does not change."""

from __future__ import annotations

import os
import shutil
import struct
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.conftest import ROOT

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("Xvfb") is None, reason="needs Xvfb (Debian: apt install xvfb)"),
]

Run = Callable[[str], str]

SHOTS = """
import time
import mygym
from mygym.demonstrations.teleoperation import Sliders

def shoot(name):
    time.sleep(2)  # the window draws by itself
    with open("Xvfb_screen0", "rb") as screen, open(name, "wb") as file:
        file.write(screen.read())

env = mygym.make_env({"task": "push"}, render_mode="human")
env.reset(seed=0)
env.window.update(env.goals[0, 0])
shoot("plain")
env.render()
shoot("caption")
sliders = Sliders(env, acting=None)
env.step(sliders.predict(None)[0][0])
print(sorted(sliders._values))
shoot("sliders")
env.close()
"""


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Run]:
    """Function that runs Python code at a virtual screen, in `tmp_path`."""
    reading, writing = os.pipe()
    screen = ["Xvfb", "-displayfd", str(writing), "-screen", "0", "1280x800x24", "-fbdir", str(tmp_path), "-noreset"]
    with subprocess.Popen(screen, pass_fds=[writing], stderr=subprocess.DEVNULL) as server:
        os.close(writing)
        with os.fdopen(reading) as pipe:
            display = f":{pipe.readline().strip()}"
        environment = {**os.environ, "DISPLAY": display, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}

        def python(code: str) -> str:
            command = [sys.executable, "-c", code]
            done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
            assert done.returncode == 0, done.stderr
            return done.stdout

        yield python
        server.terminate()


def picture(file: Path) -> NDArray[np.uint8]:
    """Return the pixels `(height, width, 3)` of a screen in the format xwd."""
    data = file.read_bytes()
    header = struct.unpack(">25I", data[:100])
    start, width, height, row, colors = header[0], header[4], header[5], header[12], header[19]
    pixels = np.frombuffer(data, np.uint8, row * height, start + 12 * colors).reshape(height, row // 4, 4)
    return pixels[:, :width, 2::-1]


def test_the_window_shows_robot_caption_and_sliders(run: Run, tmp_path: Path) -> None:
    assert run(SHOTS).split() == str(["ee_x", "ee_y", "ee_z", "goal x", "goal y"]).split(), "nothing else on stdout"
    plain, caption, sliders = (picture(tmp_path / name).astype(int) for name in ("plain", "caption", "sliders"))
    assert len(np.unique(plain.reshape(-1, 3), axis=0)) > 100, "the scene"
    changed = np.argwhere(np.abs(caption - plain).sum(axis=-1) > 100)
    assert 100 < len(changed) < 20_000, "only the caption differs"
    assert np.ptp(changed[:, 0]) < 60, "which is one line"
    panel = sliders[60:600, 1060:1250]
    assert (panel > 220).all(axis=-1).mean() > 0.8, "the panel of the sliders"
    assert (plain[60:600, 1060:1250] > 220).all(axis=-1).mean() < 0.2


TRAINING = """
from mygym import api
config = {"steps": 120, "n_envs": 2, "eval": {"episodes": 1, "final_episodes": 1}, "video": {"episodes": 0}}
print(*[api.train(config, gui=gui).path for gui in (True, False)])
"""


def test_a_training_in_a_window_gives_the_same_weights(run: Run, tmp_path: Path) -> None:
    first, second = ((tmp_path / path / "policy.safetensors").read_bytes() for path in run(TRAINING).split())
    assert first == second
