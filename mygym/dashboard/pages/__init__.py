"""Pages of the dashboard, each for a browser.

frame    navigation and the elements that all pages share
charts   options of charts
runs     table of all runs
run      a run: curves, videos, doctor, config, output
new_run  form of a new run
compare  settings side by side
world    robot, workspace and objects in 3-D
sweeps   sweeps and their trials
"""

from mygym.dashboard.pages import compare, new_run, run, runs, sweeps, world
from mygym.dashboard.service import Service


def add_pages(service: Service) -> None:
    """Register all pages."""
    for page in (runs, run, new_run, compare, world, sweeps):
        page.add_page(service)
