"""Part of the page `World` that explains a robot: its picture, its inferred properties, and the tasks it can do."""

from __future__ import annotations

import base64
from typing import Any

from nicegui import ui

from mygym.dashboard import helper as heavy
from mygym.dashboard.service import Service
from mygym.errors import MygymError

COLUMNS = {"text": "inferred", "certainty": "sure", "reason": "why", "key": "key of the YAML file to correct it"}
"""Key of a finding → title of its column."""


class AboutRobot:
    """An expansion that asks the helper about a robot when it is opened for the first time.

    Args:
        service: The service.
        robot: Registered name or file.
    """

    def __init__(self, service: Service, robot: str) -> None:
        self.service, self.robot = service, robot
        self._asked = False
        with ui.expansion(f"About {robot}", icon="precision_manufacturing").classes("w-full") as self.panel:
            self.message = ui.label("Loading …").props("role=status")
        self.panel.on_value_change(self._open)

    async def _open(self) -> None:
        if self._asked:
            return
        self._asked = True
        try:
            picture, findings, tasks = await self.service.helper.call(heavy.about_robot, self.robot)
        except MygymError as error:
            self.message.text = str(error)
            self.message.classes("text-negative")
            return
        self.message.set_visibility(False)
        with self.panel:
            self._show(picture, findings, tasks)

    def _show(self, picture: bytes, findings: list[dict[str, str]], tasks: dict[str, str]) -> None:
        image = ui.image("data:image/png;base64," + base64.b64encode(picture).decode()).classes("w-full max-w-4xl")
        image.props["alt"] = f"Tool point, approach, fingers and reach of {self.robot}"
        can = [name for name, reason in tasks.items() if not reason]
        ui.label(f"It may do {len(can)} of {len(tasks)} tasks: {', '.join(can)}.")
        if findings:
            _table(COLUMNS, findings)
        _table({"task": "cannot do", "reason": "why"}, [{"task": t, "reason": r} for t, r in tasks.items() if r])
        ui.label(f"mygym check robot {self.robot} tries each task.").classes("opacity-80")


def _table(titles: dict[str, str], rows: list[dict[str, str]]) -> None:
    """Show rows under titled columns; nothing without rows."""
    columns: list[dict[str, Any]] = [
        {"name": key, "label": label, "field": key, "align": "left"} for key, label in titles.items()
    ]
    if rows:
        ui.table(columns=columns, rows=rows).classes("w-full").props("flat bordered dense wrap-cells")
