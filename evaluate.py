"""Evaluate a run or a scripted policy; `python evaluate.py --help` prints all flags and examples."""

from mygym.cli.main import evaluate

if __name__ == "__main__":
    evaluate()
