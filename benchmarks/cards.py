"""Card of every named task: success and return of random and idle policies and of the scripted expert.

    python benchmarks/cards.py > benchmarks/results/cards.md

Each policy plays the same 100 episodes (`--episodes`) with `ee_delta`, and the default robot, or another robot that is
able to do the task. `solved at reset` is over 600 resets. `random`, `zero` and `hover` are the idle policies. For
each reward the table has the mean return of the expert and of the best idle policy. Failed demands of `mygym check
task` are listed below the table.
"""

from __future__ import annotations

import argparse
import sys
import time

from mygym.checks.tasks import EPISODES, EXPERT, IDLE, REWARDS, Card, flaws, make_card
from mygym.registry import registry


def row(card: Card) -> str:
    """Return the card as a table row."""
    cells = [card.task.name, card.robot, card.workspace, f"{len(card.solved_at_reset) / card.resets:.1%}"]
    cells += [f"{card.evaluations[policy].success_rate:.0%}" for policy in (*IDLE, EXPERT)]
    cells.append(f"{card.expert.mean_length:.0f}")
    for reward in REWARDS:
        idle = card.best_idle(reward)
        cells.append(f"{card.returns[EXPERT][reward]:.1f}, {card.returns[idle][reward]:.1f} ({idle})")
    return f"| {' | '.join(cells)} |"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--episodes", type=int, default=EPISODES, help="episodes of each policy (default: %(default)s)")
    parser.add_argument("--only", nargs="+", metavar="TASK", help="tasks (default: all)")
    options = parser.parse_args()

    start = time.perf_counter()
    print(f"# Cards of the named tasks, {options.episodes} episodes of each policy\n")
    print("Made by `python benchmarks/cards.py`; the docstring of the program explains the columns.\n")
    columns = ["task", "robot", "workspace", "solved at reset", *IDLE, "expert", "its steps"]
    columns += [f"{reward}: expert, best idle" for reward in REWARDS]
    print(f"| {' | '.join(columns)} |\n|{'---|' * len(columns)}")
    failed = []
    for task in options.only or registry("task").names():
        print(task, file=sys.stderr, flush=True)
        card = make_card({"task": task}, options.episodes)
        print(row(card), flush=True)
        failed += [f"{task}: {demand}: {finding}" for demand, finding in flaws(card).items()]
    print("\n" + ("\n".join(f"- {line}" for line in failed) or "No card has a flaw."))
    print(f"\n{time.perf_counter() - start:.0f} s.")


if __name__ == "__main__":
    main()
