"""`Encoder`: a few numbers for an image of a camera, the latents of a trained network."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from numpy.typing import NDArray

from mygym.config.schema import ImageParams
from mygym.perception.network_files import network_bytes, read_network
from mygym.perception.object_encoder import ObjectEncoder
from mygym.perception.vae import EncoderNetwork
from mygym.tasks.camera_view import CameraView
from mygym.tasks.observations import find_component
from mygym.types import FloatArray

KIND = "encoder"
"""Kind of the files, see `network_bytes`."""

NETWORKS = {"autoencoder": EncoderNetwork, "objects": ObjectEncoder}
"""Kind of the network → its class; the first argument is the shape of the images."""


@dataclass(frozen=True)
class Encoder:
    """A trained network with the conditions of its training."""

    network: EncoderNetwork | ObjectEncoder
    component: str
    """Observation component that gives its images, such as `rgbd`."""
    cameras: tuple[str, ...]
    """Cameras of its images."""
    images: ImageParams
    """Size, range of depths and goal of its images."""

    def encode(self, view: CameraView) -> FloatArray:
        """Return the latents `(Z,)` of a view of the size and the goal of `images`."""
        with torch.no_grad():
            latents: FloatArray = self.network(scaled(pixels_of(view, self.component)[None]))[0].double().numpy()
        return latents

    def to_bytes(self) -> bytes:
        """Return the content of a file."""
        kind = next(kind for kind, cls in NETWORKS.items() if isinstance(self.network, cls))
        conditions = {
            "network": kind,
            "arguments": self.network.arguments,
            "component": self.component,
            "cameras": self.cameras,
            "images": self.images.model_dump(mode="json"),
        }
        return network_bytes(KIND, self.network, conditions)


@dataclass(frozen=True)
class EncoderErrors:
    """Errors of an encoder for the images of a camera that show an object, or for all its images."""

    camera: str
    images: int
    reconstruction: float | None = None
    """Root mean square error of an autoencoder's pixels, from 0 to 255."""
    name: str | None = None
    """The object, or `goal`; None: the images show none."""
    seen: float | None = None
    """Share of these images in which an encoder of objects sees the object."""
    mean: float | None = None
    """m: mean error of the position. Autoencoder: of the object, as a linear function of the latents; encoder of
    objects: of the middle of its visible surface, where the encoder sees it."""
    worst: float | None = None
    """m: 95th percentile of this error."""


def pixels_of(view: CameraView, component: str) -> NDArray[Any]:
    """Return the image `(C, H, W)` uint8 of an observation component."""
    pixels: NDArray[Any] = find_component(component).function(view).transpose(2, 0, 1)
    return pixels


def scaled(images: NDArray[Any]) -> torch.Tensor:
    """Return images `(n, C, H, W)` uint8 as the network takes them, in [0, 1]."""
    return torch.from_numpy(images).float() / 255.0


def image_shape(component: str, images: ImageParams) -> tuple[int, int, int]:
    """Return the shape `(C, H, W)` of a component's images."""
    return find_component(component).channels, images.height, images.width


def load_encoder(path: str | Path, key: str) -> Encoder:
    """Return the encoder in a file.

    Args:
        path: A file of `Encoder.to_bytes`.
        key: Config key or flag that names the file, for messages.

    Raises:
        ConfigError: The file is missing, or does not contain an encoder.
    """
    return read_network(path, key, KIND, _build)


def _build(conditions: dict[str, Any], tensors: dict[str, torch.Tensor]) -> Encoder:
    images, component = ImageParams(**conditions["images"]), conditions["component"]
    network = NETWORKS[conditions["network"]](image_shape(component, images), **conditions["arguments"])
    network.load_state_dict(tensors)
    return Encoder(network.eval(), component, tuple(conditions["cameras"]), images)
