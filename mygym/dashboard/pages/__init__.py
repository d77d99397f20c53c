"""Pages of the dashboard, each for a browser."""

from nicegui import ui

from mygym.dashboard.pages import compare, new_run, runs, world
from mygym.dashboard.service import Service


def add_pages(service: Service) -> None:
    """Register all pages."""
    ui.label.default_style("overflow-wrap: anywhere")  # paths are wider than a phone
    for add_page in (
        *(runs.add_runs_page, runs.add_run_page, new_run.add_page),
        *(compare.add_compare_page, world.add_page, compare.add_sweeps_page),
    ):
        add_page(service)
