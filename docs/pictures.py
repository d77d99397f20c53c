"""Draw the pictures of the documents with mygym's camera and experts: `python docs/pictures.py [FOLDER]`.

Robots of the extra `robots` are drawn only if it is installed.
"""

from __future__ import annotations

import io
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray
from PIL import Image

from mygym.cli.view import camera_picture, task_picture, world_picture
from mygym.engines.rendering.camera import Camera
from mygym.engines.rendering.robot_sheet import robot_sheet
from mygym.engines.rendering.thumbnails import contact_sheet, grid
from mygym.envs.robot_env import RobotEnv
from mygym.envs.supported import a_robot_for
from mygym.experts import make_expert
from mygym.registry import registry
from mygym.robotics.objects import load_object, object_names
from mygym.robotics.robot import find_robot
from mygym.tasks.lookup import find_task
from mygym.tasks.stages.motions import TOLERANCES, progress, travel_progress

Picture = NDArray[np.uint8]

SMALL = 400, 300
"""Width and height of the pictures of single components, pixels."""

VIDEO_SIZE = 240, 180
"""Width and height of a video, pixels."""


def episode(env: RobotEnv, seed: int) -> Iterator[int]:
    """Play an episode with the expert; yield the index of the active stage at each step."""
    expert = make_expert(env)
    observation, info = env.reset(seed=seed)
    over = False
    while not over:
        yield info["stage"]
        observation, _, terminated, truncated, info = env.step(expert.act(observation))
        over = terminated or truncated
    yield info["stage"]


def reach(seed: int = 7) -> Picture:
    """Return an image of a Panda at its goal: `(540, 960, 3)`."""
    env = RobotEnv("reach", robot="panda")
    *_, _ = episode(env, seed)
    picture = Camera(env.world).render(
        1440, 810, goal=env.goals[0, env.task.stage_bindings[-1].goal_slot], shadow=True, samples=2
    )
    env.close()
    return picture[20:560, 300:1260]


def pick_and_place(seed: int = 5, gap: int = 8) -> Picture:
    """Return a strip of an image per stage: halfway through `approach`, at the end of `grasp` and of `move`."""
    env = RobotEnv("pick_and_place", robot="panda")
    stages = list(episode(env, seed))
    moments = [stages.count(0) // 2, max(i for i, stage in enumerate(stages) if stage == 1), len(stages) - 1]
    camera = Camera(env.world)
    strip: list[Picture] = []
    for step, _ in enumerate(episode(env, seed)):  # the same episode to the bit, so `moments` applies
        if step in moments:
            picture = camera.render(
                1200, 675, goal=env.goals[0, env.task.stage_bindings[-1].goal_slot], shadow=True, samples=2
            )[65:545, 390:870]
            strip += [picture, np.full((len(picture), gap, 3), 255, dtype=np.uint8)]
    env.close()
    return np.concatenate(strip[:-1], axis=1)


def objects() -> Picture:
    """Return the contact sheet of all built-in objects."""
    return contact_sheet([load_object(name) for name in object_names()], width=1400)


def randomized() -> Picture:
    """Return the first images of nine episodes, with all randomizers on."""
    env = RobotEnv(
        "push", randomize=dict.fromkeys(registry("randomizer").names(), True), render_width=300, render_height=225
    )
    pictures = []
    for seed in range(9):
        env.reset(seed=seed)
        pictures.append(env.picture(shadow=True, samples=2))
    env.close()
    return grid(pictures, columns=3)


def wrist_camera() -> Picture:
    """Return the images of the camera on the hand in four moments of the expert's episode."""
    return camera_picture("wrist", {"task": "pick_and_place"}, [])


def explained_robot() -> Picture:
    """Return the sheet that explains a Panda."""
    return robot_sheet(find_robot("panda"))


def progress_curves() -> Picture:
    """Return a plot of the progress over the distance from the goal, of an object that is pushed or carried."""
    figure = Figure(figsize=(6, 3), dpi=100, layout="constrained")
    axes = figure.subplots()
    away = np.linspace(0.0, 0.6, 400)
    tolerance = 0.02
    axes.plot(100 * away, progress(away, TOLERANCES * tolerance), label="pushed, tolerance 2 cm")
    axes.plot(100 * away, travel_progress(away, tolerance), "--", label="carried")
    axes.axvline(100 * TOLERANCES * tolerance, color="grey", linewidth=0.8)
    axes.annotate("six tolerances", (100 * TOLERANCES * tolerance + 1, 0.95))
    axes.set(xlabel="distance from the goal, cm", ylabel="progress", ylim=(0.0, 1.02), xlim=(0.0, 60.0))
    axes.legend()
    with io.BytesIO() as file:
        figure.savefig(file, format="png")
        return np.asarray(Image.open(file).convert("RGB"))


def component(kind: str, name: str) -> Picture:
    """Return a picture of a built-in task, robot or workspace: `(300, 400, 3)`."""
    if kind == "task":
        picture = task_picture(name, SMALL, {"robot": a_robot_for(find_task(name))}, (), None, randomized=False)
    else:
        robot, workspace = (name, "table") if kind == "robot" else ("panda", name)
        drawn = world_picture(robot, workspace, SMALL, "main", fit_robot=kind == "robot", window=False)
        assert drawn is not None
        picture = drawn
    return picture


def record(task: str, seed: int = 3) -> list[Image.Image]:
    """Return every second image of an episode of the expert, 240 × 180 pixels."""
    width, height = VIDEO_SIZE
    env = RobotEnv(task, a_robot_for(find_task(task)), render_width=width, render_height=height)
    frames = [Image.fromarray(env.picture()) for step, _ in enumerate(episode(env, seed)) if step % 2 == 0]
    env.close()
    return frames


def main(folder: Path) -> None:
    """Write every picture into `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    for draw in (reach, pick_and_place):
        Image.fromarray(draw()).save(folder / f"panda_{draw.__name__}.png", optimize=True)
    for sheet in (objects, randomized, wrist_camera, explained_robot, progress_curves):
        Image.fromarray(sheet()).save(folder / f"{sheet.__name__}.png", optimize=True)
    for kind in ("task", "robot", "workspace"):
        (folder / kind).mkdir(exist_ok=True)
        for entry in registry(kind):
            if entry.built_in and not entry.missing_extras:
                Image.fromarray(component(kind, entry.name)).save(folder / kind / f"{entry.name}.jpg", quality=85)
    (folder / "video").mkdir(exist_ok=True)
    for entry in registry("task"):
        if entry.built_in:
            first, *rest = record(entry.name)
            path = folder / "video" / f"{entry.name}.webp"
            first.save(path, save_all=True, append_images=rest, duration=80, loop=0, quality=60)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent / "images")
