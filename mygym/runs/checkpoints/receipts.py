"""Which SB3 files this project has written on this machine: those that may be unpickled without asking.

For each file its inode and the time of its last change are kept in the run directory. Both are the system's: whoever
sends a run to somebody else can write a receipt, but not foresee these for the copy. A file that is copied, moved or
changed loses its receipt.
"""

from __future__ import annotations

import json
from pathlib import Path

from mygym.runs.directory import write_json

RECEIPTS = ".receipts.json"


def record(file: Path) -> None:
    """Remember that `file` has just been written by us."""
    receipts = _receipts(file.parent)
    receipts[file.name] = _identity(file)
    write_json(file.parent / RECEIPTS, receipts)


def is_ours(file: Path) -> bool:
    """Whether `file` is as it was when `record` was called."""
    return not file.is_symlink() and _receipts(file.parent).get(file.name) == _identity(file)


def _identity(file: Path) -> str:
    status = file.stat()
    return f"{status.st_dev} {status.st_ino} {status.st_ctime_ns} {status.st_size}"


def _receipts(folder: Path) -> dict[str, str]:
    path = folder / RECEIPTS
    if not path.is_file():  # for a pipe one would wait
        return {}
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return content if isinstance(content, dict) else {}
