"""`ImageHistory`: the last images of each component, for observations that stack them."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from mygym.tasks.camera_view import Image


@dataclass(frozen=True)
class ImageHistory:
    """Last images of each component at a moment."""

    moment: tuple[int, float] = (-1, 0.0)
    """Number of the episode, and simulated seconds since its reset."""
    images: dict[str, tuple[Image, ...]] = field(default_factory=dict)
    """Component → its last images, the newest last."""

    def with_images(self, moment: tuple[int, float], newest: dict[str, Image], frames: int) -> ImageHistory:
        """Return the history with new images: instead of those of the same moment, and without earlier episodes.

        Args:
            moment: Moment of the new images.
            newest: Component → image `(H, W, C)`.
            frames: Number of images to keep.
        """
        if moment[0] != self.moment[0]:
            return ImageHistory(moment, {name: (image,) for name, image in newest.items()})
        end = -1 if moment == self.moment else None
        images = {name: (*self.images[name][:end], image)[-frames:] for name, image in newest.items()}
        return ImageHistory(moment, images)

    def stack(self, name: str, frames: int) -> Image:
        """Return the last `frames` images of a component as channels; before the first image, the first repeats."""
        images = self.images[name]
        return np.concatenate([*[images[0]] * (frames - len(images)), *images], axis=-1)
