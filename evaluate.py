"""Judge a run or a scripted policy: `python evaluate.py --help`."""

from mygym.cli.main import evaluate

if __name__ == "__main__":
    evaluate()
