"""Packages of the wheel: all folders of `mygym`, and `configs` as `mygym.configs`; the rest is in pyproject.toml."""

from setuptools import find_namespace_packages, setup

setup(packages=[*find_namespace_packages(include=["mygym*"]), "mygym.configs", "mygym.configs.sweeps"])
