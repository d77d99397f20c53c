"""Registration of all pages."""

from mygym.dashboard.pages import compare, new_run, run, runs, sweeps, world
from mygym.dashboard.service import Service


def add_pages(service: Service) -> None:
    """Register all pages."""
    for page in (runs, run, new_run, compare, world, sweeps):
        page.add_page(service)
