"""Page `World`: robot, workspace and objects in 3-D; sliders of the joints, an expert or a policy live, the goal.

Below, `explain_robot` shows what the inference has found, and which tasks the robot cannot do.
"""

from __future__ import annotations

import asyncio
import base64
import json
import multiprocessing
import sys
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from nicegui import events, ui

from mygym.config.schema import RunConfig
from mygym.dashboard import helper as heavy
from mygym.dashboard.api import MESHES
from mygym.dashboard.pages.frame import PATIENCE, empty, frame, show_table
from mygym.dashboard.player import play
from mygym.dashboard.service import Service, refused_paths
from mygym.errors import MygymError
from mygym.tasks.state import TIME_STEP
from mygym.training.directory import saved_config

COLUMNS = {"text": "inferred", "certainty": "sure", "reason": "why", "key": "key of the YAML file to correct it"}
"""Key of a finding → title of its column."""


def explain_robot(service: Service, robot: str) -> None:
    """Show an expansion that asks the helper about a robot when it is opened for the first time."""
    with ui.expansion(f"About {robot}", icon="precision_manufacturing").classes("w-full") as panel:
        message = ui.label("Loading …").props("role=status")
    asked = False

    async def show() -> None:
        nonlocal asked
        if asked:
            return
        asked = True
        try:
            picture, findings, tasks = await service.helper.call(heavy.about_robot, robot)
        except MygymError as error:
            message.text = str(error)
            message.classes("text-negative")
            return
        message.set_visibility(False)
        can = [name for name, reason in tasks.items() if not reason]
        cannot = [{"task": name, "reason": reason} for name, reason in tasks.items() if reason]
        with panel:
            image = ui.image("data:image/png;base64," + base64.b64encode(picture).decode()).classes("w-full max-w-4xl")
            image.props["alt"] = f"Tool point, approach, fingers and reach of {robot}"
            ui.label(f"It may do {len(can)} of {len(tasks)} tasks: {', '.join(can)}.")
            show_table(COLUMNS, findings)
            show_table({"task": "cannot do", "reason": "why"}, cannot)
            ui.label(f"mygym check robot {robot} tries each task.").classes("opacity-80")

    panel.on_value_change(show)


MAX_PLAYERS = 2
"""Players at the same time: each is a process that keeps a core busy."""

GOAL_COLOR, GOAL_RADIUS = "#22c55e", 0.025

POSE = """<script>window.showPoses = (id, poses) => {
  const scene = getElement(id);
  if (!scene || !scene.objects) return;
  for (const [name, p] of Object.entries(poses)) {
    const mesh = (scene.objects.get(name) || {}).mesh;
    const dragged = !scene.controls.enabled && scene.draggable_objects.includes(mesh);
    if (!mesh || dragged) continue;
    mesh.position.set(p[0], p[1], p[2]);
    if (p.length > 3) mesh.quaternion.set(p[3], p[4], p[5], p[6]);
  }
}</script>"""
"""Moves all objects of a scene by one message; NiceGUI would send two for each object. A dragged object stays."""

_views: list[WorldView] = []
"""Worlds whose process is alive, the oldest first."""


def add_pages(service: Service) -> None:
    """Register the page; the API has the meshes that it draws."""
    meshes = service.jobs.folder / MESHES
    meshes.mkdir(exist_ok=True)

    @ui.page("/world", response_timeout=PATIENCE)
    async def world(run: str = "", task: str = "", robot: str = "") -> None:
        defaults = RunConfig()
        config = {"task": task or defaults.task, "robot": robot or defaults.robot}
        with frame("World"):
            source: Any = config
            shown = robot or str(defaults.robot)
            if run:
                try:
                    source = service.index.get(run).record.path
                    shown = str(saved_config(Path(source)).get("robot", shown))
                except MygymError as error:
                    empty(str(error), "All runs", "/")
                    return
            else:
                for refused in refused_paths(config, service.logdir).values():
                    empty(refused, "World", "/world")
                    return
                known = await service.helper.call(heavy.helps, list(config))
                with ui.row().classes("items-center gap-3"):
                    for kind, value in config.items():
                        names = dict.fromkeys([*known[kind], value])  # a robot may be a file
                        chosen = ui.select(list(names), value=value, label=kind, with_input=True)
                        chosen.props('dense outlined new-value-mode="add-unique"').classes("w-56")
                        chosen.on_value_change(lambda event, kind=kind: _open({**config, kind: event.value}))
            while len(_views) >= MAX_PLAYERS:  # a page that was left or loaded again is still in the list for seconds
                _views[0].end(f"Only {MAX_PLAYERS} worlds run at a time, and another was opened. Load this page again.")
            WorldView(source, str(meshes))
            explain_robot(service, shown)


def _open(config: dict[str, Any]) -> None:
    ui.navigate.to(f"/world?{urlencode(config)}")


class WorldView:
    """The scene and its controls, for a browser."""

    def __init__(self, source: Any, meshes: str) -> None:
        ui.add_head_html(POSE)
        context = multiprocessing.get_context("spawn")
        self.pipe, other = context.Pipe()
        self.process = context.Process(target=play, args=(other, source, meshes), daemon=True)
        self.process.start()
        other.close()
        _views.append(self)
        self.client = ui.context.client
        self.client.on_delete(self.close)
        self.sliders: list[ui.slider] = []
        self._ready = self._quiet = False
        self._poses: dict[str, list[float]] = {}
        self._build()
        ui.timer(1.0, self._pose)  # the browser loads the meshes after the first poses have arrived
        if sys.platform == "win32":  # its event loop waits for sockets alone
            ui.timer(TIME_STEP, self._poll)
        else:
            asyncio.get_running_loop().add_reader(self.pipe.fileno(), self._receive, self.pipe)

    def close(self) -> None:
        """End the process."""
        if self in _views:
            _views.remove(self)
            if sys.platform != "win32":
                asyncio.get_running_loop().remove_reader(self.pipe.fileno())
            self.pipe.close()
            self.process.terminate()

    def end(self, reason: str) -> None:
        """End the process, and show the reason on the page."""
        self.close()
        self.text.text = reason

    def _build(self) -> None:
        with ui.element("div").classes("grid grid-cols-1 lg:grid-cols-4 gap-4 w-full items-start"):
            with ui.column().classes("lg:col-span-3 w-full gap-2"):
                camera = ui.scene.perspective_camera(fov=45, near=0.02, far=20)
                self.scene = ui.scene(
                    width=900, height=560, grid=False, camera=camera, background_color="#dfe6ee", fps=25,
                    on_drag_end=lambda event: self.send({"goal": [event.x, event.y, event.z]}),
                )  # fmt: skip
                self.scene.classes("w-full rounded").style(
                    "height: auto; min-height: 0; aspect-ratio: 900 / 560"
                ).props('aria-label="The robot in 3-D"')
                self.scene.move_camera(1.3, -1.3, 0.9, 0.15, 0.0, 0.2, duration=0)
                self.text = ui.label("Loading …").props("role=status")
            with ui.column().classes("w-full gap-2") as self.panel:
                with ui.row().classes("gap-2"):
                    self.expert = ui.button("Play the expert", on_click=lambda: self.send({"act": "expert"}))
                    self.policy = ui.button("Play the policy", on_click=lambda: self.send({"act": "policy"}))
                    self.policy.set_visibility(False)  # until the process says that the run has one
                    ui.button("Pause", on_click=lambda: self.send({"act": ""})).props("outline")
                    ui.button("New episode", on_click=lambda: self.send({"reset": 1})).props("outline")
                ui.label("Goal, m: drag the green sphere, or move the sliders").classes("text-sm opacity-80")
                self.goal = [self._slider(axis, -1.0, 1.0, 0.0, self._goal_changed) for axis in "xyz"]
                ui.label("Joints, rad").classes("text-sm opacity-80")

    def _slider(self, name: str, low: float, high: float, value: float, changed: Any) -> ui.slider:
        with ui.row().classes("w-full items-center no-wrap gap-3"):
            ui.label(name).classes("text-xs w-24 shrink-0")
            slider = ui.slider(min=low, max=high, step=0.01, value=value).props(f'aria-label="{name}" label')
        slider.on_value_change(changed)
        return slider

    def send(self, message: dict[str, Any]) -> None:
        """Send a message to the process."""
        try:
            self.pipe.send(message)
        except OSError:
            self.text.text = "The process of this world has ended; open the page again."

    def _poll(self) -> None:
        """Receive messages that have arrived, unless the page is closed."""
        try:
            arrived = not self.pipe.closed and self.pipe.poll()
        except OSError:  # the process has ended
            arrived = True
        if arrived:
            self._receive(self.pipe)

    def _receive(self, pipe: Connection) -> None:
        """Show the newest of the messages that have arrived."""
        message: dict[str, Any] = {}
        try:
            while pipe.poll():
                message = pipe.recv()
                if "shapes" in message or "error" in message:
                    break
        except (EOFError, OSError):
            self.close()
            return
        with self.client:
            if "error" in message:
                self.text.text = message["error"]
                self.text.classes("text-negative")
            elif "shapes" in message:
                self._draw(message)
            elif message and self._ready:
                self._show(message)

    def _draw(self, message: dict[str, Any]) -> None:
        """Create the objects of the scene and the sliders of the joints."""
        groups: dict[str, Any] = {}
        with self.scene:
            for shape in message["shapes"]:
                if shape["link"] not in groups:
                    groups[shape["link"]] = self.scene.group()
                with groups[shape["link"]]:
                    _add_shape(self.scene, shape)
            self.marker = self.scene.sphere(GOAL_RADIUS).material(GOAL_COLOR, 0.85).draggable()
        self.ids = {link: group.id for link, group in groups.items()}
        self.policy.set_visibility("policy" in message["can"])
        with self.panel:
            self.sliders = [
                self._slider(
                    joint["name"],
                    joint["low"],
                    joint["high"],
                    round(joint["value"], 2),
                    partial(self._joint_changed, index),
                )
                for index, joint in enumerate(message["joints"])
            ]
        self._ready = True

    def _show(self, frame: dict[str, Any]) -> None:
        self.text.text = frame["text"]
        poses = {self.ids[link]: pose for link, pose in frame["poses"].items() if link in self.ids}
        self._poses = {**poses, self.marker.id: frame["goal"]}
        self._pose()
        self._quiet = True
        pairs = [*zip(self.goal, frame["goal"], strict=True), *zip(self.sliders, frame["joints"], strict=False)]
        for slider, value in pairs:
            if abs(slider.value - value) > 0.005:
                slider.value = round(value, 2)
        self._quiet = False

    def _pose(self) -> None:
        """Move the objects of the scene."""
        ui.run_javascript(f"showPoses({self.scene.id}, {json.dumps(self._poses)})")

    def _goal_changed(self) -> None:
        if not self._quiet:
            self.send({"goal": [slider.value for slider in self.goal]})

    def _joint_changed(self, index: int, event: events.ValueChangeEventArguments[float]) -> None:
        if not self._quiet:
            self.send({"joint": index, "value": event.value})


def _add_shape(scene: ui.scene, shape: dict[str, Any]) -> None:
    """Add a shape to the current group."""
    size, kind = shape["size"], shape["kind"]
    if kind == "mesh":
        if not shape["file"]:
            return
        drawn: Any = scene.stl(f"/api/meshes/{shape['file']}").scale(*size)
    elif kind == "box":
        drawn = scene.box(*size)
    elif kind == "sphere":
        drawn = scene.sphere(size[0])
    else:
        drawn = scene.cylinder(size[1], size[1], size[0], 24)
    red, green, blue, opacity = shape["color"]
    drawn.material("#" + "".join(f"{round(255 * value):02x}" for value in (red, green, blue)), opacity)
    drawn.move(*shape["position"])
    drawn.rotate_R(_matrix(shape["orientation"], upright=kind in ("cylinder", "capsule")))


def _matrix(quaternion: list[float], upright: bool) -> list[list[float]]:
    """Return a rotation as rows; three.js has the axis of a cylinder along y, Bullet along z."""
    from mygym.robotics.transforms import quaternion_to_matrix

    matrix = quaternion_to_matrix(quaternion)
    rows: list[list[float]] = (matrix[:, [0, 2, 1]] * [1, 1, -1] if upright else matrix).tolist()
    return rows
