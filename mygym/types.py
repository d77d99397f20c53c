"""Type aliases that all packages share."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = Any
"""A numpy or torch array: task functions accept both, through array-api-compat."""

FloatArray = NDArray[np.float64]
"""A numpy array of float64."""

Vector = tuple[float, float, float]
"""Three components, m unless the field states another unit."""
