"""`mygym new`: scaffold a component."""

from mygym.cli.new.command import main

__all__ = ["main"]
