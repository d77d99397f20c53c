"""Train a robot arm; `python train.py --help` prints all flags and examples."""

from mygym.cli.main import train

if __name__ == "__main__":
    train()
