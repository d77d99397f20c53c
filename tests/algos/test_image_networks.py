"""Networks for images in dictionary observations: sizes, and gradients of every weight."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from gymnasium import spaces

from mygym.algos.defaults import IMAGE_EXTRACTORS
from mygym.algos.images import ImageExtractor
from mygym.registry import registry
from mygym.vision.networks import Keypoints


@pytest.mark.parametrize("name", sorted(IMAGE_EXTRACTORS.keys() - {"frozen"}))  # tests/vision has frozen
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


def test_keypoints_of_local_contrast_do_not_depend_on_the_brightness() -> None:
    torch.manual_seed(0)
    image, marker = 0.1 * torch.rand(2, 3, 24, 32), torch.zeros(2, 3, 24, 32)
    marker[:, 1, 10:13, 20:23] = 1.0
    light = torch.tensor([[0.5, -0.3, 0.2], [1.0, 2.0, -1.0]])[:, :, None, None]
    for local_contrast in (False, True):
        network = Keypoints((3, 24, 32), 8, 4, local_contrast=local_contrast).eval()
        with torch.no_grad():
            dark, bright, marked = network(image), network(image + light), network(image + marker)
        assert torch.allclose(dark, bright, atol=1e-5) == local_contrast
        assert not torch.allclose(dark, marked, atol=1e-3)


def test_colors_vary_in_training_alone() -> None:
    torch.manual_seed(0)
    image = torch.rand(1, 3, 16, 16)
    network = Keypoints((3, 16, 16), 8, 4, color_jitter=0.5)
    with torch.no_grad():
        assert not torch.equal(network(image), network(image))
        network.eval()
        assert torch.equal(network(image), network(image))
        steady = Keypoints((3, 16, 16), 8, 4)
        assert torch.equal(steady(image), steady(image))
