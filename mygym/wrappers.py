"""Wrappers that give environments the interfaces of other libraries."""

from mygym.envs.lerobot import LeRobot

__all__ = ["LeRobot"]
