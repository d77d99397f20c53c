"""`--explain`: every value of a config and where it came from."""

from __future__ import annotations

import json

from mygym.config import Resolved
from mygym.config.layers import flatten


def explain(resolved: Resolved) -> None:
    """Print one line for each value: key, value, origin."""
    values = dict(flatten(resolved.values()))
    shown = {key: json.dumps(value) for key, value in values.items()}
    key_width = max(map(len, shown))
    value_width = min(40, max(map(len, shown.values())))
    for key, text in shown.items():
        print(f"{key:<{key_width}}  {text:<{value_width}}  {resolved.origins[key]}")
