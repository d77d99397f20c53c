"""Page `New run`: a form of the schema and the registries, with a preview, and the same run as command and YAML."""

from __future__ import annotations

import base64
import contextlib
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from nicegui import ui

from mygym.config import Resolved
from mygym.config.json_schema import REGISTRY_OF_KEY
from mygym.config.loading import parse_value
from mygym.config.schema import RunConfig
from mygym.dashboard import helper as heavy
from mygym.dashboard.pages.frame import PATIENCE, frame, heading, train_and_open
from mygym.dashboard.service import Service, command_line, messages_of, yaml_of
from mygym.errors import MygymError
from mygym.nested import at, has, merged

FIRST = (
    "task",
    "robot",
    "workspace",
    "algo",
    "strategy",
    "reward",
    "control",
    "steps",
    "n_envs",
    "seed",
    "framework",
    "engine",
)
"""Keys at the top of the form."""

ELSEWHERE = ("logdir", "strict", "imports", "algo_params", "strategy_params", "training_params")
"""Keys that the general sections of the form leave out."""

SCENE_KEYS = ("robot", "task", "workspace", "task_params", "robot_params", "seed", "control")
"""Keys that the preview shows."""

SECTIONS = {"algo": "algo_params.", "framework": "algo_params.", "strategy": "strategy_params."}
"""Key → beginning of the keys whose values depend on it."""

LONGEST = 40
"""Characters of a value that is shown in its field."""

DELAY = 0.5
"""s between two looks whether the config has changed."""


class Field(NamedTuple):
    """A leaf of the schema."""

    key: str
    help: str
    choices: tuple[Any, ...] = ()


def add_pages(service: Service) -> None:
    """Register the page."""

    @ui.page("/new", response_timeout=PATIENCE)
    async def page() -> None:
        helps = await service.helper.call(heavy.helps, list(REGISTRY_OF_KEY.values()))
        with frame("New run"):
            NewRun(service, helps)


class NewRun:
    """The form, for a browser; it holds only the values that the user sets, and shows all that the run takes."""

    def __init__(self, service: Service, helps: Mapping[str, Mapping[str, str]]) -> None:
        self.service = service
        self.helps = helps
        self.values: dict[str, Any] = {}
        self.unreadable: dict[str, str] = {}
        """Error of each input whose text is no value."""
        self.resolved: Resolved | None = None
        """Values that the run takes; None before the first check, and while the form has a mistake."""
        self._unchecked = True
        self.inputs: dict[str, Any] = {}
        self.seen: dict[str, Any] = {}
        self.fields = {field.key: field for field in fields_of(RunConfig.model_json_schema())}
        with ui.element("div").classes("grid grid-cols-1 lg:grid-cols-5 gap-6 w-full items-start"):
            with ui.column().classes("lg:col-span-3 w-full gap-3"):
                with _grid():
                    for key in FIRST:
                        self._input(self.fields.get(key) or Field(key, ""))
                self.parameters = ui.expansion("Hyperparameters", icon="tune").classes("w-full")
                self.strategy = ui.expansion("Parameters of the strategy", icon="route").classes("w-full")
                with ui.expansion("Everything else", icon="list").classes("w-full"), _grid():
                    for key, field in self.fields.items():
                        if key not in FIRST and key.partition(".")[0] not in (*ELSEWHERE, *REGISTRY_OF_KEY):
                            self._input(field)
            with ui.column().classes("lg:col-span-2 w-full gap-3 lg:sticky top-16"):
                self.picture = ui.image().classes("w-full rounded").props('alt="Start of an episode" ratio=1.5')
                self.message = ui.label().classes("w-full").style("white-space: pre-line")
                self.message.props("role=status")
                with ui.row().classes("items-center"):
                    self.start = ui.button("Start", icon="play_arrow", on_click=self._start)
                    self.priority = ui.number("Priority", value=0, min=-100, max=100, format="%d").props(
                        "dense outlined"
                    )
                heading("The same run in a terminal")
                self.command = ui.code("", language="bash").classes("w-full")
                heading("The same run as YAML")
                self.yaml = ui.code("", language="yaml").classes("w-full")
        self._changed()
        ui.timer(DELAY, self._check)

    def config(self) -> dict[str, Any]:
        """Return the nested config of the values in the form."""
        result: dict[str, Any] = {}
        for key, value in self.values.items():
            for name in reversed(key.split(".")):
                value = {name: value}
            result = merged(result, value)
        return result

    def _input(self, field: Field) -> None:
        """Show the input of a field: names of a registry, choices, or text that is read as YAML."""
        kind = REGISTRY_OF_KEY.get(field.key)
        if kind or field.choices:
            names = list(self.helps[kind]) if kind else list(field.choices)
            helps = self.helps[kind] if kind and field.key != "task" else {}
            options = {name: f"{name}: {helps[name]}" if helps.get(name) else str(name) for name in names}
            element: Any = ui.select(options, label=field.key, with_input=True, clearable=True).props("options-dense")
            if kind and field.key != "reward":
                element.props('new-value-mode="add-unique"')
        else:
            element = ui.input(field.key).props("clearable")
        element.props(f'outlined dense stack-label hint="{_quoted(field.help)}"')
        element.classes("w-full")
        element.on_value_change(lambda event, key=field.key: self._set(key, event.value))
        self.inputs[field.key] = element

    def _set(self, key: str, value: Any) -> None:
        """Note a value that the user has set, or that the user has cleared.

        A hyperparameter also chooses the algorithm that the form shows: alone it would choose the schema's.
        """
        if key.startswith("algo_params.") and value not in (None, "") and self.resolved and "algo" not in self.values:
            self.inputs["algo"].value = self.resolved.config.algo
        self.values.pop(key, None)
        self.unreadable.pop(key, None)
        if value not in (None, ""):
            try:
                self.values[key] = parse_value(value, key) if isinstance(value, str) else value
            except MygymError as error:
                self.unreadable[key] = str(error)
        if section := SECTIONS.get(key):  # its values belong to another algorithm or strategy
            self.values = {name: item for name, item in self.values.items() if not name.startswith(section)}
            self.unreadable = {name: item for name, item in self.unreadable.items() if not name.startswith(section)}
        self._changed()

    def _changed(self) -> None:
        config = self.config()
        self.command.content = command_line(config, self.service.logdir)
        self.yaml.content = yaml_of(config)
        self._unchecked = True

    async def _check(self) -> None:
        """Check a changed config in the words of the command line, then draw the preview."""
        if not self._unchecked:
            return
        self._unchecked = False
        config = self.config()
        self.message.text = "Checking …"
        self.message.classes(remove="text-negative")
        for element in self.inputs.values():
            element.props(remove="error error-message")
        errors, resolved = list(self.unreadable.values()), None
        try:
            resolved = await self.service.examine(config)
        except MygymError as error:
            errors += messages_of(error)
        if config != self.config():  # the next look checks it
            return
        self.resolved = resolved
        await self._show_values(config)
        scene = {key: config[key] for key in SCENE_KEYS if key in config}
        if resolved and scene != self.seen.get("scene"):
            picture = await self.service.helper.call(heavy.preview, scene)
            self.picture.set_source("data:image/png;base64," + base64.b64encode(picture).decode())
            self.seen["scene"] = scene
        if config == self.config():
            self.message.text = "This run can start."
            self._show_errors(errors)

    def _show_errors(self, errors: Sequence[str]) -> None:
        """Show errors at the inputs of their fields and above the button."""
        if not errors:
            return
        self.message.text = "\n".join(errors)
        self.message.classes("text-negative")
        for text in errors:
            if element := self.inputs.get(text.partition(": ")[0]):
                element.props("error").props(f'error-message="{_quoted(text.partition("; ")[0])}"')

    async def _show_values(self, config: Mapping[str, Any]) -> None:
        """Show the parameters of the algorithm and the strategies of the run, and the value that each field takes."""
        taken = self.resolved.values() if self.resolved else dict(config)
        with contextlib.suppress(MygymError):  # an unknown name: the check has the words for it
            chosen = taken.get("algo"), taken.get("framework")
            if chosen[0] and self.seen.get("algo") != chosen:
                rows = await self.service.helper.call(heavy.parameters, "algorithm", *chosen)
                self._fill(self.parameters, "algo_params", [("algo_params", rows)])
                self.parameters.text = f"Hyperparameters of {chosen[0]}"
                self.seen["algo"] = chosen
            strategy = taken.get("strategy")
            if strategy and self.seen.get("strategy") != strategy:
                sections = await self.service.helper.call(heavy.strategy_sections, strategy)
                self._fill(self.strategy, "strategy_params", sections)
                self.strategy.text = f"Parameters of the strategy {strategy}"
                self.strategy.set_visibility(any(rows for _, rows in sections))
                self.seen["strategy"] = strategy
        for key, element in self.inputs.items():
            text = taken_value(key, self.resolved) if self.resolved else ""
            if text != element.props.get("placeholder", ""):
                element.props["placeholder"] = text
                element.update()

    def _fill(self, section: ui.expansion, prefix: str, tables: Sequence[tuple[str, list[dict[str, Any]]]]) -> None:
        self.inputs = {key: each for key, each in self.inputs.items() if not key.startswith(f"{prefix}.")}
        section.clear()
        with section, _grid():
            for key, rows in tables:
                for row in rows:
                    self._input(Field(f"{key}.{row['name']}", f"{row['type']}. {row['help']}"))

    async def _start(self) -> None:
        if self.unreadable:
            self._show_errors(list(self.unreadable.values()))
            return
        priority = int(self.priority.value or 0)
        await train_and_open(
            self.service, self.start, self.config(), priority, lambda error: self._show_errors(messages_of(error))
        )


def taken_value(key: str, resolved: Resolved) -> str:
    """Return the value that a run takes for a key, as a user would type it, and its origin; empty without one."""
    path = tuple(key.split("."))
    if not has(resolved.values(), path):
        return ""
    value = at(resolved.values(), path)
    text = value if isinstance(value, str) else json.dumps(value)
    shown = text if len(text) <= LONGEST else f"{text[:LONGEST]}…"
    return f"{shown}  ({resolved.origin(key)})"


def fields_of(schema: Mapping[str, Any], prefix: str = "", node: Mapping[str, Any] | None = None) -> Iterator[Field]:
    """Yield the leaves of a JSON schema with dotted keys, or those of a `node` in it, whose key is `prefix`."""
    for name, entry in (node or schema).get("properties", {}).items():
        inner = _resolved(schema, entry)
        if inner.get("type") == "object" and "properties" in inner:
            yield from fields_of(schema, f"{prefix}{name}.", inner)
            continue
        options = [_resolved(schema, option) for option in entry.get("anyOf", [inner])]
        bounds = [_range(option) for option in options if _range(option)]
        text = entry.get("description", "") + (f"; {' or '.join(bounds)}" if bounds else "")
        choices = (True, False) if inner.get("type") == "boolean" else tuple(inner.get("enum", ()))
        yield Field(f"{prefix}{name}", text, choices)


def _resolved(schema: Mapping[str, Any], entry: Mapping[str, Any]) -> Mapping[str, Any]:
    name = entry.get("$ref", "").rpartition("/")[2]
    return schema["$defs"][name] if name else entry


def _range(entry: Mapping[str, Any]) -> str:
    """Return the range of a number in words."""
    words = {"minimum": "at least", "exclusiveMinimum": "above", "maximum": "at most", "exclusiveMaximum": "below"}
    return ", ".join(f"{word} {entry[key]:,}" for key, word in words.items() if key in entry)


def _quoted(text: str) -> str:
    return text.replace('"', "'").replace("\n", " ")


def _grid() -> ui.element:
    return ui.element("div").classes("grid grid-cols-1 sm:grid-cols-2 gap-x-4 gap-y-2 w-full")
