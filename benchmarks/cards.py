"""The card of every named task: what chance, idleness and the scripted expert solve, and what each reward pays them.

    python benchmarks/cards.py > benchmarks/results/cards.md

Each policy plays the same 100 episodes (`--episodes`), by `ee_delta`, with the default robot or one that can do the
task; resets are 600. `random`, `zero` and `hover` are the idle policies; of each reward the table has the expert's mean
return and that of the best idle policy. What falls short of what `mygym check task` demands is below the table.
"""

from __future__ import annotations

import argparse
import sys
import time

from mygym.checks.cards import EPISODES, EXPERT, IDLE, REWARDS, Card, flaws, make_card
from mygym.registry import registry


def row(card: Card) -> str:
    """The card as a line of the table."""
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
    parser.add_argument("--episodes", type=int, default=EPISODES, help="of each policy (default: %(default)s)")
    parser.add_argument("--only", nargs="+", metavar="TASK", help="these (default: all)")
    options = parser.parse_args()

    begin = time.perf_counter()
    print(f"# Cards of the named tasks, {options.episodes} episodes of each policy\n")
    print("Made by `python benchmarks/cards.py`; what the columns mean: the docstring of the program.\n")
    columns = ["task", "robot", "workspace", "solved at reset", *IDLE, "expert", "its steps"]
    columns += [f"{reward}: expert, best idle" for reward in REWARDS]
    print(f"| {' | '.join(columns)} |\n|{'---|' * len(columns)}")
    short = []
    for task in options.only or registry("task").names():
        print(task, file=sys.stderr, flush=True)
        card = make_card({"task": task}, options.episodes)
        print(row(card), flush=True)
        short += [f"{task}: {demanded}: {said}" for demanded, said in flaws(card).items()]
    print("\n" + ("\n".join(f"- {one}" for one in short) or "Nothing falls short."))
    print(f"\n{time.perf_counter() - begin:.0f} s.")


if __name__ == "__main__":
    main()
