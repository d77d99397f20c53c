"""The versions of Python that mygym supports. Older versions can read this module; `make` runs it as a program."""

import sys
from pathlib import Path

SUPPORTED = ("3.11", "3.12", "3.13", "3.14")

PROGRAMS = frozenset({"mygym", "train", "evaluate", "-m", "python_version"})
"""Names of the programs, without suffix; `-m` while `python -m mygym` imports the package."""


def is_program() -> bool:
    """Return whether this process is a program of mygym, and not a program that imports mygym."""
    return Path(sys.argv[0]).stem in PROGRAMS


def check_python() -> None:
    """Refuse other versions of Python: a program of mygym ends with exit code 2 and the message.

    Raises:
        ImportError: The version is not supported, and the process is not a program of mygym.
    """
    version = ".".join(map(str, sys.version_info[:2]))
    if version in SUPPORTED:
        return
    message = f"Python: {version!r} is not supported; allowed: {', '.join(SUPPORTED)}"
    if is_program():
        sys.stderr.write(f"error: {message} ({sys.executable})\n")
        sys.exit(2)
    raise ImportError(message)


if __name__ == "__main__":
    check_python()
