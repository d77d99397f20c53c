"""Strategies, which work with any algorithm."""

from mygym.strategies.strategy import Requirement, Strategy, register_strategy

__all__ = ["Requirement", "Strategy", "register_strategy"]
