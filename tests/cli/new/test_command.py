"""`mygym new`: output of the command, and training of a scaffolded algorithm."""

from __future__ import annotations

from pathlib import Path

from mygym.cli.new.scaffolds import PACKAGES, SCAFFOLDS
from tests.command import SHORT_RUN, Command


def test_scaffold_and_train_an_algorithm_in_two_commands(mygym_command: Command, tmp_path: Path) -> None:
    created = mygym_command("new", "algo", "custom")
    assert created.code == 0
    files = ["algos/custom.py", "configs/custom.yaml", "tests/test_custom.py"]
    assert created.out.splitlines()[:3] == files
    assert sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*.*")) == files
    (train,) = [line.strip() for line in created.out.splitlines() if line.strip().startswith("mygym train")]
    trained = mygym_command(*train.split()[1:], *SHORT_RUN)
    assert trained.code == 0
    assert trained.out.splitlines()[-1].startswith("run: runs/reach/panda/custom/")
    again = mygym_command("new", "algo", "custom")
    assert (again.code, "is a registered algorithm already" in again.err) == (2, True)


def test_the_next_commands_fit_the_folder(mygym_command: Command, tmp_path: Path) -> None:
    (tmp_path / "train.py").touch()
    assert "  python train.py --task custom\n  mygym check task custom\n" in mygym_command("new", "task", "custom").out
    created = mygym_command("new", "env", "other").out
    assert "mygym check task other" in created
    assert "mygym check workspace other" in created


def test_the_help_names_every_kind(mygym_command: Command) -> None:
    text = mygym_command("new", "--help").out.partition("positional arguments:")[2].partition("  NAME ")[0]
    assert [word.strip(",;") for word in text.split() if word not in ("KIND", "or")] == [*SCAFFOLDS, *PACKAGES]
