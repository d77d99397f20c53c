"""`--explain`: print every value of a config and its origin."""

from __future__ import annotations

import json

from mygym.config import Resolved
from mygym.config.layers import flatten


def explain(resolved: Resolved) -> None:
    """Print one line for each value: key, value, origin."""
    values = dict(flatten(resolved.values()))
    texts = {key: json.dumps(value) for key, value in values.items()}
    key_width = max(map(len, texts))
    value_width = min(40, max(map(len, texts.values())))
    for key, text in texts.items():
        print(f"{key:<{key_width}}  {text:<{value_width}}  {resolved.origins[key]}")
