"""`--explain`: print every value of a config and its origin."""

from __future__ import annotations

import json

from mygym.config import Resolved


def explain(resolved: Resolved) -> None:
    """Print one line for each value: key, value, origin."""
    rows = [(key, json.dumps(value), origin) for key, value, origin in resolved.rows()]
    key_width = max(len(key) for key, _, _ in rows)
    value_width = min(40, max(len(text) for _, text, _ in rows))
    for key, text, origin in rows:
        print(f"{key:<{key_width}}  {text:<{value_width}}  {origin}")
