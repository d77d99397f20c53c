"""Receipts of SB3 files that this project has written on this machine, and may unpickle without `--trust`.

A receipt holds the file's inode and the time of its last change, in the run directory. The system sets both: the author
of a third-party run can write a receipt, but cannot predict these numbers for the copy. A file that is copied, moved or
changed loses its receipt. Without receipts, users would need `--trust` for their files too, and type it by habit.
"""

from __future__ import annotations

import json
from pathlib import Path

from mygym.training.files import write_json

RECEIPTS = ".receipts.json"


def record(file: Path) -> None:
    """Write the receipt of a file that this process has just written."""
    receipts = _receipts(file.parent)
    receipts[file.name] = _identity(file)
    write_json(file.parent / RECEIPTS, receipts)


def has_valid_receipt(file: Path) -> bool:
    """Return whether `file` is unchanged since its receipt was written."""
    return not file.is_symlink() and _receipts(file.parent).get(file.name) == _identity(file)


def _identity(file: Path) -> str:
    status = file.stat()
    return f"{status.st_dev} {status.st_ino} {status.st_ctime_ns} {status.st_size}"


def _receipts(folder: Path) -> dict[str, str]:
    path = folder / RECEIPTS
    if not path.is_file():  # reading a pipe would block
        return {}
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return content if isinstance(content, dict) else {}
