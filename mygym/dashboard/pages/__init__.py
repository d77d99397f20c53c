"""Pages of the dashboard, each for a browser."""

from nicegui import ui

from mygym.dashboard.pages import compare, new_run, runs, world
from mygym.dashboard.service import Service


def add_pages(service: Service) -> None:
    """Register all pages."""
    ui.label.default_style("overflow-wrap: anywhere")  # paths are wider than a phone
    for module in (runs, new_run, compare, world):
        module.add_pages(service)
