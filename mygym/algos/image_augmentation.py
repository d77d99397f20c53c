"""Random shifts of images, as augmentation."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import torch


def random_shift(images: torch.Tensor, pixels: int) -> torch.Tensor:
    """Return images `(n, C, H, W)`, each moved by up to `pixels`; its border is repeated (Yarats et al., 2021)."""
    count, _, height, width = images.shape
    shifts = torch.randint(-pixels, pixels + 1, (2, count, 1), device=images.device)
    rows = (torch.arange(height, device=images.device) + shifts[0]).clamp(0, height - 1)
    columns = (torch.arange(width, device=images.device) + shifts[1]).clamp(0, width - 1)
    batch = torch.arange(count, device=images.device)
    moved = images[batch[:, None, None], :, rows[:, :, None], columns[:, None, :]].permute(0, 3, 1, 2)
    return moved.contiguous()  # with the channels last, gradients have another layout, and resumed runs differ in bits


def shifted(observations: Any, pixels: int) -> Any:
    """Return a dictionary observation with randomly shifted images `(n, C, H, W)` uint8."""
    if not pixels or not isinstance(observations, dict):
        return observations
    return {name: random_shift(values, pixels) if values.ndim == 4 else values for name, values in observations.items()}


class ShiftedReplay:
    """Mixin of off-policy algorithms that shifts the images of each minibatch at random (DrQ: Yarats et al., 2021).

    Args:
        *args: Arguments of the algorithm.
        random_shift: Pixels by which images are shifted at random in every minibatch, at most, the observation and the
            next observation independently; 0: not at all.
        **kwargs: Arguments of the algorithm.
    """

    replay_buffer: Any

    def __init__(self, *args: Any, random_shift: int = 0, **kwargs: Any) -> None:
        self.random_shift = random_shift
        super().__init__(*args, **kwargs)

    def train(self, gradient_steps: int, batch_size: int = 64) -> None:
        """Make gradient steps on minibatches with shifted images, also of demonstrations in them."""
        buffer = self.replay_buffer

        def sample(*args: Any, **kwargs: Any) -> Any:
            batch = buffer.sample(*args, **kwargs)
            observations, next_observations = (
                shifted(values, self.random_shift) for values in (batch.observations, batch.next_observations)
            )
            return batch._replace(observations=observations, next_observations=next_observations)

        if self.random_shift:
            self.replay_buffer = SimpleNamespace(sample=sample)
        try:
            super().train(gradient_steps, batch_size)  # type: ignore[misc]
        finally:
            self.replay_buffer = buffer
