"""Pages of the dashboard, each for a browser.

all_pages   registration of all pages
frame       navigation and the elements that all pages share
charts      options of charts
runs        table of all runs
run         a run: curves, videos, doctor, config, output
new_run     form of a new run
compare     settings side by side
world       robot, workspace and objects in 3-D
about_robot picture, inferred properties and tasks of the robot
sweeps      sweeps and their trials
"""
