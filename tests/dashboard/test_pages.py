"""From end to end in Chromium: start a run, watch its curve, stop, resume, compare, open the video, move the arm."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mygym.dashboard.pages.frame import PAGES
from tests.dashboard.servers import CHROMIUM, CHROMIUM_FLAGS, Server, server

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not CHROMIUM.exists(), reason=f"{CHROMIUM} is not installed: apt-get install chromium"),
]

SHORT = {"eval": {"every": 400, "episodes": 3, "final_episodes": 5}, "video": {"episodes": 1}, "stop_at_success": None}


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Server]:
    (tmp_path / "runs").mkdir()
    with server(tmp_path / "runs") as started:
        yield started


@pytest.fixture
def page(served: Server) -> Iterator[Any]:
    playwright = pytest.importorskip("playwright.sync_api", reason="pip install playwright")
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=str(CHROMIUM), args=list(CHROMIUM_FLAGS))
        page = browser.new_page()
        page.set_default_timeout(60_000)
        page.goto(served.login)
        assert "token" not in page.url
        yield page
        browser.close()


def points(page: Any) -> int:
    """Number of evaluations in the first chart of the page of a run."""
    script = "() => { const c = getElement(%d); return c.chart.getOption().series[0]?.data?.length || 0 }"
    number = int(page.locator(".nicegui-echart").first.get_attribute("id")[1:])
    return int(page.evaluate(script % number))


def wait_for_status(served: Server, status: str) -> None:
    for _ in range(300):
        if any(row["status"] == status for row in served.call("/api/runs")):
            return
        time.sleep(0.2)
    raise AssertionError(f"no run is {status} after a minute")


def test_from_the_first_run_to_the_moving_arm(page: Any, served: Server) -> None:
    page.get_by_text("has no runs yet").wait_for()
    page.get_by_role("button", name="Choose task").click()
    page.get_by_text("This run can start.").wait_for()
    page.get_by_label("algo", exact=True).fill("sax")
    page.get_by_label("algo", exact=True).press("Enter")
    page.get_by_role("status").get_by_text("did you mean 'sac'?").wait_for()
    page.get_by_label("algo", exact=True).fill("sac")
    page.get_by_label("algo", exact=True).press("Enter")
    page.get_by_label("steps", exact=True).fill("4000")
    page.get_by_text("--algo sac --steps 4000").wait_for()

    served.call("/api/runs", {"algo": "sac", "steps": 60_000, **SHORT})
    page.goto(f"{served.address}/run/job-1")
    page.get_by_role("button", name="Stop with a checkpoint").wait_for()
    page.wait_for_function("() => document.body.innerText.includes('success')")
    page.wait_for_timeout(1000)
    first = points(page)
    for _ in range(60):
        page.wait_for_timeout(1000)
        if points(page) > max(first, 1):
            break
    assert points(page) > max(first, 1)

    page.get_by_role("button", name="Stop with a checkpoint").click()
    page.locator(".q-badge", has_text="interrupted").wait_for()
    page.get_by_role("button", name="Resume").click()
    page.get_by_role("button", name="Stop with a checkpoint").wait_for()
    page.get_by_role("button", name="Stop with a checkpoint").click()
    page.locator(".q-badge", has_text="interrupted").wait_for()

    served.call("/api/runs", {"algo": "sac", "steps": 800, **SHORT})
    page.goto(served.address)
    page.locator(".q-badge", has_text="done").wait_for(timeout=120_000)
    page.locator("thead .q-checkbox").click()
    page.get_by_role("button", name="Compare").click()
    page.get_by_text("Difference of the configs").wait_for()
    assert page.get_by_text("steps").count()

    done = next(row["id"] for row in served.call("/api/runs") if row["status"] == "done")
    page.goto(f"{served.address}/run/{done}")
    page.locator("video").first.wait_for()
    page.wait_for_function("() => document.querySelector('video').readyState >= 2")

    page.goto(f"{served.address}/world?run={done}")
    page.get_by_text("step 0").wait_for()
    link = """() => { const scene = getElement(Number(document.querySelector('.nicegui-scene').id.slice(1)));
        return JSON.stringify([...scene.objects.values()].map(o => o.mesh?.position)) }"""
    page.wait_for_timeout(1000)
    before = page.evaluate(link)
    slider = page.get_by_role("slider", name="panda_joint2")
    slider.locator("[tabindex]").first.focus()
    for _ in range(10):
        page.keyboard.press("ArrowRight")
    page.wait_for_timeout(1500)
    assert page.evaluate(link) != before
    page.get_by_role("button", name="Play the policy").click()
    page.wait_for_function("() => /step [1-9]/.test(document.body.innerText)")


def test_the_form_starts_a_run_and_refuses_text_that_is_no_value(page: Any, served: Server) -> None:
    page.goto(f"{served.address}/new")
    page.get_by_text("This run can start.").wait_for()
    steps = page.get_by_label("steps", exact=True)
    steps.fill("600")
    page.get_by_text("--steps 600").wait_for()
    steps.fill("[6")
    page.get_by_role("status").get_by_text("steps").wait_for()
    page.get_by_role("button", name="Start").click()
    page.wait_for_timeout(1500)
    assert served.call("/api/runs") == [], "the value before the mistake"
    steps.fill("200")
    page.get_by_text("Hyperparameters").click()
    page.get_by_label("algo_params.learning_rate").fill("1e-3")
    page.get_by_text("algo_params.learning_rate=0.001").wait_for()
    page.get_by_role("button", name="Start").click()
    page.wait_for_url("**/run/job-1")
    wait_for_status(served, "done")
    (row,) = served.call("/api/runs")
    assert row["steps"] >= 200


def test_the_expert_plays_and_a_single_joint_is_posed(page: Any, served: Server) -> None:
    page.goto(f"{served.address}/world?task=pick_and_place")
    page.get_by_text("step 0").wait_for()
    page.get_by_role("button", name="Play the expert").click()
    page.wait_for_function("() => /grasp · step/.test(document.body.innerText)")
    page.get_by_role("button", name="Pause").click()
    page.wait_for_timeout(1000)

    def joints() -> list[str]:
        sliders = [page.get_by_role("slider", name=f"panda_joint{number}") for number in range(1, 8)]
        return [str(slider.first.get_attribute("aria-valuenow")) for slider in sliders]

    before = joints()
    page.get_by_role("slider", name="panda_joint2").locator("[tabindex]").first.focus()
    page.keyboard.press("ArrowRight")
    page.wait_for_timeout(1000)
    after = joints()
    assert [index for index, pair in enumerate(zip(before, after, strict=True)) if pair[0] != pair[1]] == [1]


MARKER = """() => {
    const box = document.querySelector('.nicegui-scene'), scene = getElement(Number(box.id.slice(1)));
    const marker = [...scene.objects.values()].find(o => o.mesh?.geometry?.type === 'SphereGeometry'
        && scene.draggable_objects.includes(o.mesh));
    const {x, y} = marker.mesh.position.clone().project(scene.camera), area = box.getBoundingClientRect();
    return [area.left + (x + 1) / 2 * area.width, area.top + (1 - y) / 2 * area.height];
}"""
"""Returns the position of the goal's marker on the page, in pixels."""


def test_the_goal_is_dragged_while_the_expert_plays(page: Any, served: Server) -> None:
    page.goto(f"{served.address}/world?task=pick_and_place")
    page.get_by_text("step 0").wait_for()
    page.wait_for_timeout(1500)
    x, y = page.evaluate(MARKER)
    page.mouse.move(x, y)
    page.get_by_role("button", name="Play the expert").focus()
    page.keyboard.press("Enter")
    page.mouse.down()
    page.mouse.move(x + 40, y - 40, steps=8)
    for _ in range(3):  # frames of the expert arrive meanwhile
        step = page.evaluate("() => document.body.innerText.match(/step [0-9]+/)[0]")
        page.wait_for_function("step => !document.body.innerText.includes(step)", arg=step)
    during = page.evaluate(MARKER)
    assert abs(during[0] - x - 40) < 8, "the marker stays under the pointer"
    page.mouse.up()
    page.get_by_role("button", name="Pause").click()
    page.wait_for_timeout(1000)
    page.get_by_role("button", name="New episode").click()
    page.wait_for_timeout(1000)
    x, y = page.evaluate(MARKER)
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.move(x + 40, y - 40, steps=8)
    page.mouse.up()
    page.wait_for_timeout(1000)
    after = page.evaluate(MARKER)
    assert abs(after[0] - x - 40) < 8
    assert abs(after[1] - y + 40) < 8


def test_a_third_world_ends_the_first_with_a_message(page: Any, served: Server) -> None:
    context = page.context.browser.new_context(storage_state=page.context.storage_state())
    pages = [page, context.new_page(), context.new_page()]
    for each in pages:
        each.goto(f"{served.address}/world")
        each.get_by_text("step 0").wait_for(timeout=60_000)
    pages[0].get_by_text("Only 2 worlds run at a time").wait_for()
    for each in pages[1:]:
        each.get_by_role("button", name="Play the expert").click()
        each.wait_for_function("() => /step [1-9]/.test(document.body.innerText)")
    pages[0].reload()
    pages[0].get_by_text("step 0").wait_for(timeout=60_000)


@pytest.mark.parametrize("address", PAGES.values(), ids=PAGES)
def test_the_keyboard_reaches_every_control(page: Any, served: Server, address: str) -> None:
    page.goto(f"{served.address}{address}")
    page.wait_for_timeout(4000)
    number = page.evaluate(
        """() => { const shown = e => e.checkVisibility() && !e.disabled && e.getAttribute('aria-disabled') !== 'true';
        const all = [...document.querySelectorAll('a[href], button, input, textarea, [role=slider] [tabindex]')];
        const wanted = all.filter(shown); wanted.forEach((e, i) => e.dataset.wanted = i); return wanted.length }"""
    )
    assert number
    reached = set()
    for _ in range(3 * number):
        page.keyboard.press("Tab")
        reached.add(page.evaluate("() => document.activeElement.dataset.wanted"))
    missing = set(map(str, range(number))) - reached
    names = [
        page.evaluate(f"""() => document.querySelector('[data-wanted="{n}"]')?.outerHTML.slice(0, 200)""")
        for n in missing
    ]
    assert not missing, names


def test_a_run_goes_on_without_the_server(tmp_path: Path) -> None:
    logdir = tmp_path / "runs"
    logdir.mkdir()
    with server(logdir) as first:
        first.call("/api/runs", {"algo": "sac", "steps": 60_000, **SHORT})
        wait_for_status(first, "running")
        first.process.send_signal(signal.SIGKILL)
    with server(logdir) as second:
        (row,) = second.call("/api/runs")
        assert row["status"] == "running"
        second.call(f"/api/runs/{row['id']}/stop", {})
        wait_for_status(second, "interrupted")
        assert list((logdir / row["path"] / "checkpoints").iterdir())
