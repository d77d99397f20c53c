"""Networks for images in dictionary observations: sizes, and gradients of every weight."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from gymnasium import spaces

from mygym.algos.image_networks import ImageExtractor
from mygym.algos.networks import IMAGE_EXTRACTORS
from mygym.registry import registry


@pytest.mark.parametrize("name", sorted(IMAGE_EXTRACTORS.keys() - {"frozen"}))  # tests/perception has frozen
def test_several_images_and_the_numbers_become_one_vector(name: str) -> None:
    cls = registry("features_extractor").get(name, "").load_for("pytorch")
    assert issubclass(cls, ImageExtractor)
    size = max(cls.smallest_image, 8)
    shapes = {"image": (3, size, size + 1), "depth:wrist": (1, size, size + 1)}
    images = {key: spaces.Box(0, 255, shape, np.uint8) for key, shape in shapes.items()}
    space = spaces.Dict({**images, "observation": spaces.Box(-1, 1, (4,))})
    network = cls(space)
    observations = {key: torch.rand(2, *subspace.shape) for key, subspace in space.spaces.items()}
    features = network(dict(reversed(observations.items())))
    assert features.shape == (2, network.features_dim)
    torch.testing.assert_close(features, network(observations))
    features.pow(2).sum().backward()
    assert all(bool(parameter.grad.abs().sum() > 0) for parameter in network.parameters() if parameter.dim() > 1)
    if cls.smallest_image > 1:
        with pytest.raises(RuntimeError, match="Kernel size"):
            cls(spaces.Dict({"image": spaces.Box(0, 255, (3, size - 1, size), np.uint8)}))
