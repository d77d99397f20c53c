"""Evaluate a run or a built-in policy: `python evaluate.py --help`."""

from mygym.cli.main import evaluate

if __name__ == "__main__":
    evaluate()
