"""`mygym new`: scaffold a component.

command         parser and messages
request         `Request`, the component that the user asks for
naming          checks of names and folders
scaffolds       kinds that can be scaffolded, and the files of each
learning_files  files of algorithms, policies and strategies
task_files      files of tasks and of their elements
robot_files     files of a ROS 2 package with a policy
asset_files     files of robots, workspaces and objects
robot_yaml      description of an inferred robot as YAML, with its findings as comments
templating      filling of `templates/`
writing         atomic writing, never over existing files
"""

from mygym.cli.new.command import main

__all__ = ["main"]
