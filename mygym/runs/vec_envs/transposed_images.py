"""Images of vector environments with the channels first, as networks of PyTorch take them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from stable_baselines3.common.vec_env import VecTransposeImage


class TransposedImages(VecTransposeImage):
    """`VecTransposeImage` whose images are copies in C order.

    The images of a checkpoint are in this order, too: in another order, convolutions give other bits.
    """

    @staticmethod
    def transpose_image(image: NDArray[Any]) -> NDArray[Any]:
        """Return an image, or a batch of images, with the channels first."""
        return np.ascontiguousarray(VecTransposeImage.transpose_image(image))
