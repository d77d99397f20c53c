"""Player: a process that plays an environment at 25 Hz and sends the poses of all that is drawn."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Mapping
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, cast

import numpy as np

from mygym.errors import MygymError
from mygym.robotics.mesh_files import as_stl
from mygym.tasks.state import TIME_STEP
from mygym.training.files import write_bytes


def play(pipe: Connection, source: Mapping[str, Any] | str, meshes: str) -> None:
    """Show an environment until the pipe is closed.

    Messages that are received: `{"act": "expert" | "policy" | ""}`, `{"joint": index, "value": rad}`,
    `{"goal": [x, y, z]}`, `{"reset": seed}`. Messages that are sent: `{"error": text}`; first
    `{"shapes": …, "joints": …, "can": …}`; then `{"poses": link → pose, "goal": …, "joints": …, "text": …}` whenever
    something has moved; its `joints` are empty while a policy acts or a person poses the arm.
    """
    try:
        player = Player(source, Path(meshes))
        pipe.send(player.description())
        while True:
            begin = time.monotonic()
            while pipe.poll():
                player.handle(pipe.recv())
            if (frame := player.frame()) is not None:
                pipe.send(frame)
            time.sleep(max(0.001, TIME_STEP - (time.monotonic() - begin)))
    except MygymError as error:
        pipe.send({"error": str(error)})
    except (EOFError, OSError, KeyboardInterrupt):  # the page was closed
        pass


class Player:
    """An environment, a policy that acts in it, and the scene that is drawn."""

    def __init__(self, source: Mapping[str, Any] | str, meshes: Path) -> None:
        from mygym import api
        from mygym.engines.rendering.scene import Scene

        self.source, self.meshes = source, meshes
        self.env = api.make_env(source if isinstance(source, str) else dict(source))
        self.task_env = cast("Any", self.env.unwrapped)
        self.scene = Scene(self.task_env.world)
        self.acting = ""
        self._policy: Any = None
        self._state: Any = None
        self._seed, self._moved, self._start, self._posed = 0, True, True, False
        self._joints: list[float] = []
        self.observation, _ = self.env.reset(seed=self._seed)

    def description(self) -> dict[str, Any]:
        """Return the shapes, and the joints with their limits, rad."""
        from mygym.engines.rendering.scene import drawn_shapes

        self.scene.mirror(None)
        joints = [joint for arm in self.task_env.robot.arms for joint in arm.joints]
        values = self.task_env.world.state.joint_position[0].tolist()
        limits = [
            {"name": joint.name, "low": max(joint.lower, -6.3), "high": min(joint.upper, 6.3), "value": value}
            for joint, value in zip(joints, values, strict=True)
        ]
        shapes = [{**vars(shape), "file": self._mesh(shape.file)} for shape in drawn_shapes(self.scene)]
        return {
            "shapes": shapes,
            "joints": limits,
            "can": ["expert", *(["policy"] if isinstance(self.source, str) else [])],
        }

    def handle(self, message: Mapping[str, Any]) -> None:
        """Follow a message of the server."""
        self._moved = True
        if "act" in message:
            self.acting = str(message["act"])
        elif "joint" in message:
            self.acting = ""
            if not self._posed:
                self._joints = self.task_env.world.state.joint_position[0].tolist()
            self._joints[message["joint"]] = message["value"]
            self.scene.pose_arm(self._joints)
            self._posed = True
        elif "goal" in message:
            self._move_goal(np.array(message["goal"], dtype=float))
        elif "reset" in message:
            self._reset()

    def frame(self) -> dict[str, Any] | None:
        """Perform a step if a policy acts; return the drawn poses, or None if nothing has moved."""
        from mygym.engines.rendering.scene import link_poses

        if self.acting:
            self._step()
        elif not self._moved:
            return None
        if not self._posed or self.acting:
            self.scene.mirror(None)
            self._posed = False
        self._moved = False
        env = self.task_env
        stage = (*env.task.labels, "done")[int(env.progress.stage[0])]
        resting = not self.acting and not self._posed
        return {
            "poses": link_poses(self.scene),
            "goal": self._goal(),
            "joints": env.world.state.joint_position[0].tolist() if resting else [],
            "text": f"{stage} · step {env.elapsed_steps}",
        }

    def _step(self) -> None:
        if self.acting == "policy":
            action, self._state = self._loaded().predict(self.observation, self._state, np.array([self._start]))
        else:
            action = self.task_env.expert_action()
        self.observation, _, terminated, truncated, _ = self.env.step(action)
        self._start = False
        if terminated or truncated:
            self._reset()

    def _reset(self) -> None:
        self._seed, self._start, self._state = self._seed + 1, True, None
        self.observation, _ = self.env.reset(seed=self._seed)
        self._posed = False

    def _loaded(self) -> Any:
        if self._policy is None:
            from mygym import api

            self._policy = api.load(str(self.source))
        return self._policy

    def _goal(self) -> list[float]:
        bindings = self.task_env.task.stage_bindings
        bound = bindings[min(int(self.task_env.progress.stage[0]), len(bindings) - 1)]
        return [round(value, 4) for value in self.task_env.goals[0, bound.goal_slot].tolist()]

    def _move_goal(self, position: Any) -> None:
        if position.shape == (3,) and np.isfinite(position).all():
            bounds = self.task_env.workspace.bounds
            self.task_env.move_goal(np.clip(position, bounds.low, bounds.high))
            self.observation = self.task_env.observe_as(self.task_env.observation_spec)

    def _mesh(self, file: str) -> str:
        """Return the name of a mesh in the folder of meshes; empty if it cannot be drawn."""
        if not file:
            return ""
        path = Path(file)
        try:
            name = hashlib.sha256(f"{file} {path.stat().st_mtime_ns}".encode()).hexdigest()[:16]
            if not (self.meshes / f"{name}.stl").is_file():
                write_bytes(self.meshes / f"{name}.stl", as_stl(path))
        except (OSError, MygymError):
            return ""
        return name
