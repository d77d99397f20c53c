"""Logic of the pages, without a browser: filter, order, removal, the form, the worlds that run."""

from __future__ import annotations

import asyncio
import sys
import zipfile
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from nicegui import ui
from nicegui.testing import User, UserInteraction, user_simulation

from mygym.dashboard.pages import add_pages, world
from mygym.dashboard.service import Service
from tests.reporting.runs import make_run
from tests.robotics.test_inference import arm, write

Scenario = Callable[[User], Awaitable[None]]


@pytest.fixture
def visit(service: Service) -> Callable[[Scenario], None]:
    """Return a function that executes a scenario against the pages of the log directory."""

    async def simulate(scenario: Scenario) -> None:
        async with user_simulation() as user:
            add_pages(service)
            await scenario(user)

    def run(scenario: Scenario) -> None:
        imported = {name: module for name, module in sys.modules.items() if name.partition(".")[0] == "mygym"}
        try:
            asyncio.run(simulate(scenario))
        finally:
            sys.modules.update(imported)  # NiceGUI removes the modules of the pages, and `mygym` itself

    return run


def shown(user: User) -> list[str]:
    """Return the runs in the table, as it names them."""
    (table,) = user.find(ui.table).elements
    return [row["run"] for row in table.rows]


def control(user: User, label: str) -> Any:
    """Return the input or selection with a label."""
    elements = [*user.find(ui.select).elements, *user.find(ui.input).elements]
    (element,) = [each for each in elements if each.props.get("label") == label]
    return element


def select(user: User, word: str) -> None:
    """Select the run whose name contains a word."""
    (table,) = user.find(ui.table).elements
    rows = [row for row in table.rows if word in row["run"]]
    table.selected = []
    user.find(ui.table).trigger("selection", {"added": True, "rows": rows, "keys": [row["id"] for row in rows]})


def confirm(user: User, label: str) -> None:
    """Click a button of the open dialog."""
    (dialog,) = [each for each in user.find(ui.dialog).elements if each.value]
    (button,) = [each for each in dialog.descendants() if isinstance(each, ui.button) and each.text == label]
    UserInteraction(user, {button}, None).click()


async def until(condition: Callable[[], bool]) -> None:
    for _ in range(1500):
        if condition():
            return
        await asyncio.sleep(0.02)
    raise AssertionError("nothing happened in 30 s")


def test_an_empty_log_directory_begins_with_a_click(visit: Callable[[Scenario], None], service: Service) -> None:
    async def scenario(user: User) -> None:
        await user.open("/")
        await user.should_see("has no runs yet")
        commands = [code.content for code in user.find(ui.code).elements]
        first = f"mygym train --logdir {service.logdir}"
        new = "mygym new algo my_algo\nmygym train --algo my_algo"
        assert sorted(commands) == sorted([first, new, "mygym train --config FILE"])
        user.find("Train it").click()
        await until(lambda: bool(service.jobs.queue.in_state("queued")))
        await user.should_see("The run begins as soon as a core is free.", retries=20)

    visit(scenario)
    (job,) = service.jobs.queue.newest()
    assert job.title == "sac · reach"


def taken(user: User, label: str) -> str:
    """Return the value that a field of the form shows without one of the user."""
    return str(control(user, label).props.get("placeholder", ""))


def test_the_form_shows_what_the_run_takes_and_follows_each_choice(visit: Callable[[Scenario], None]) -> None:
    async def scenario(user: User) -> None:
        await user.open("/new")
        await until(lambda: taken(user, "algo") == "sac  (default)")
        assert taken(user, "n_envs") == "4  (algorithm sac)"
        control(user, "task").value = "switch"
        await until(lambda: taken(user, "algo") == "ppo  (tasks of several stages)")
        assert taken(user, "reward") == "shaped  (algorithm ppo, for several stages)"
        assert taken(user, "n_envs") == "32  (algorithm ppo, for several stages)"
        assert taken(user, "steps") == "500000  (algorithm ppo, for several stages)"
        assert taken(user, "workspace") == "panel  (derived)"
        assert taken(user, "algo_params.n_steps") == "64  (algorithm ppo, for several stages)"
        assert taken(user, "eval.every") == "40000  (algorithm ppo, for several stages)"
        control(user, "algo_params.gamma").value = "0.9"
        await until(lambda: control(user, "algo").value == "ppo")  # and not sac, the schema's
        control(user, "algo").value = "sac"
        await until(lambda: taken(user, "n_envs") == "8  (algorithm sac, for task switch)")
        control(user, "engine").value = "fused"
        await user.should_see("which engine fused does not support", retries=200)
        assert taken(user, "n_envs") == "", "no run, no values"
        control(user, "algo").value = None
        control(user, "task").value = "reach"
        await until(lambda: taken(user, "n_envs") == "512  (algorithm ppo, for engine fused)")
        control(user, "engine").value = None
        control(user, "task").value = "pick_and_place"
        control(user, "strategy").value = "curriculum"
        await user.should_see("strategy_params.window", retries=200)
        await until(lambda: taken(user, "strategy_params.window") == "30  (strategy curriculum)")

    visit(scenario)


def test_the_form_shows_all_mistakes_at_their_fields(visit: Callable[[Scenario], None]) -> None:
    async def scenario(user: User) -> None:
        await user.open("/new")
        await user.should_see("This run can start.", retries=200)
        control(user, "n_envs").value = "0"
        control(user, "algo").set_options([*control(user, "algo").options, "sax"], value="sax")
        control(user, "eval.every").value = "often"
        for word in ("n_envs: 0", "did you mean 'sac'?", "eval.every: 'often'"):
            await user.should_see(word, retries=200)
        for key in ("n_envs", "algo", "eval.every"):
            assert control(user, key).props["error-message"].startswith(f"{key}: ")
        assert "error-message" not in control(user, "steps").props

    visit(scenario)


def test_runs_are_filtered_ordered_archived_and_deleted(
    visit: Callable[[Scenario], None], service: Service, tmp_path: Path
) -> None:
    runs = [
        make_run(service.logdir, success, seed, algo=algo)
        for success, seed, algo in ((0.3, 0, "sac"), (0.9, 1, "ppo"), (0.6, 2, "sac"))
    ]

    async def scenario(user: User) -> None:
        await user.open("/")
        assert len(shown(user)) == 3
        user.find("Filter: algorithm, task, robot, path").type("SAC")
        assert [" sac " in name for name in shown(user)] == [True, True]
        control(user, "Order").value = "success"
        assert ["seed 2" in name for name in shown(user)] == [True, False]
        user.find("Filter: algorithm, task, robot, path").clear()
        assert ["seed 1" in name for name in shown(user)] == [True, False, False]
        control(user, "Status").value = "running"
        assert shown(user) == []
        control(user, "Status").value = "any status"

        select(user, " ppo ")
        user.find("Archive").click()
        await user.should_see("Move into runs-")
        confirm(user, "Archive")
        await until(lambda: len(shown(user)) == 2)
        (archive,) = service.logdir.glob("runs-*.zip")
        with zipfile.ZipFile(archive) as stored:
            assert f"{runs[1].name}/config.yaml" in " ".join(stored.namelist())

        select(user, "seed 2")
        user.find("Delete").click()
        await user.should_see("Delete for ever: 1 run,")
        confirm(user, "Delete")
        await until(lambda: len(shown(user)) == 1)

    visit(scenario)
    assert [run.exists() for run in runs] == [True, False, False]


@pytest.mark.slow
def test_the_form_follows_the_algorithm_beside_another_mistake(
    visit: Callable[[Scenario], None], service: Service
) -> None:
    async def scenario(user: User) -> None:
        await user.open("/new")
        await user.should_see("This run can start.", retries=200)
        control(user, "steps").value = "many"
        await user.should_see("steps: 'many'", retries=200)
        control(user, "algo").value = "ppo"
        await user.should_see("algo_params.clip_range", retries=200)
        user.find("Start").click()
        await asyncio.sleep(0.2)
        assert not service.jobs.queue.in_state("queued", "started")

    visit(scenario)


@pytest.mark.parametrize(("theme", "dark"), [("dark", True), ("light", False), ("system", None), ("purple", None)])
def test_the_browser_keeps_the_theme(
    visit: Callable[[Scenario], None], monkeypatch: pytest.MonkeyPatch, theme: str, dark: bool | None
) -> None:
    scripts: list[str] = []
    monkeypatch.setattr(ui, "run_javascript", scripts.append)

    async def scenario(user: User) -> None:
        await user.open("/")
        (selection,) = [each for each in user.find(ui.select).elements if each.props.get("aria-label") == "Theme"]
        assert selection.value == "system"
        if theme in selection.options:
            selection.value = "light" if theme != "light" else "dark"
            selection.value = theme
            (cookie,) = [script for script in scripts[-1:] if f"mygym_theme={theme};" in script]
            assert "SameSite=Strict" in cookie
        user.http_client.cookies.set("mygym_theme", theme)
        await user.open("/compare")
        (dark_mode,) = user.find(ui.dark_mode).elements
        assert dark_mode.value is dark

    visit(scenario)


def names(chart: Any) -> list[str]:
    """Return the names of the curves of a chart."""
    return [each["name"] for each in chart.options["series"] if each.get("name")]


def charts_of(user: User) -> dict[str, Any]:
    """Return label of the vertical axis → chart."""
    return {
        chart.options["yAxis"]["name"]: chart
        for chart in user.find(ui.echart).elements
        if "name" in chart.options["yAxis"]
    }


def test_the_page_of_a_run_draws_every_recorded_figure(service: Service, visit: Callable[[Scenario], None]) -> None:
    make_run(service.index.logdir, 1.0, loss=2.0)

    async def scenario(user: User) -> None:
        (identifier,) = service.index.entries()
        await user.open(f"/run/{identifier}")
        charts = charts_of(user)
        assert names(charts["success"]) == ["evaluation", "training"]
        assert [each["data"][-1] for each in charts["success"].options["series"]] == [[10_000, 1.0], [10_000, 0.5]]
        assert names(charts["return"]) == ["evaluation"]
        assert names(charts["figures"]) == ["test_loss", "train/loss"]
        assert charts["figures"].options["series"][0]["data"][-1] == [10_000, 2.0]

    visit(scenario)


def test_a_comparison_draws_the_figure_that_is_chosen(service: Service, visit: Callable[[Scenario], None]) -> None:
    for envs in (1, 2):
        make_run(service.index.logdir, 1.0, n_envs=envs, loss=float(envs))

    async def scenario(user: User) -> None:
        await user.open(f"/compare?runs={','.join(service.index.entries())}")
        assert set(charts_of(user)) == {"success rate", "mean return", "train_success"}
        (figure,) = [each for each in user.find(ui.select).elements if each.props.get("label") == "Figure"]
        assert figure.options == ["train_success", "test_loss", "train/loss"]
        figure.set_value("test_loss")
        chart = charts_of(user)["test_loss"]
        last = {each["name"]: each["data"][-1] for each in chart.options["series"]}
        assert last == {"n_envs=1": [10_000, 1.0], "n_envs=2": [10_000, 2.0]}

    visit(scenario)


def test_a_robot_of_the_world_is_explained(
    visit: Callable[[Scenario], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Picture, findings with certainty and key, tasks with reasons; also of a file."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(world, "WorldView", lambda *arguments: None)  # its process is tested with a browser
    write(tmp_path / "own.urdf", arm("arm", "root"))

    async def scenario(user: User) -> None:
        await user.open("/world?robot=own.urdf")
        (panel,) = user.find(ui.expansion).elements
        panel.value = True
        await user.should_see("It may do", retries=500)
        (image,) = user.find(ui.image).elements
        assert str(image.props["src"]).startswith("data:image/png;base64,")
        findings, tasks = [table.rows for table in user.find(ui.table).elements]
        if "task" in findings[0]:
            findings, tasks = tasks, findings
        (joints,) = [row for row in findings if row["key"] == "joints"]
        assert "arm_1 to arm_6" in joints["text"]
        assert joints["certainty"] in ("certain", "likely", "guess")
        assert {"task": "hand_over", "reason": "has 1 arm, and hand_over needs 2"} in tasks
        await user.open("/world?robot=/etc/passwd")
        await user.should_see("is outside the log directory")

    visit(scenario)
