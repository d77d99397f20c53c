"""Evaluate a run or a scripted policy; `python evaluate.py --help` prints all flags and examples."""

from mygym.cli.main import run

if __name__ == "__main__":
    run("evaluate")
