"""Packages of the wheel: all folders of `mygym`, `configs` as `mygym.configs`, and `envs` as `mygym.examples`."""

from setuptools import find_namespace_packages, setup

EXAMPLES = [f"mygym.examples.{folder}" for folder in ("objects", "robots", "workspaces")]
CONFIGS = ["mygym.configs", "mygym.configs.sweeps"]

setup(packages=[*find_namespace_packages(include=["mygym*"]), *CONFIGS, "mygym.examples", *EXAMPLES])
