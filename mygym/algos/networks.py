"""Table of network components for configs: activations, optimisers and feature extractors of each framework.

This module contains only data: a component is imported at its first use.
"""

from mygym.registry import registry

ACTIVATIONS = {
    "relu": ("ReLU", "relu", "max(0, x)"),
    "leaky_relu": ("LeakyReLU", "leaky_relu", "x, or 0.01 x below zero"),
    "elu": ("ELU", "elu", "x, or exp(x) − 1 below zero"),
    "gelu": ("GELU", "gelu", "x times the cumulative normal distribution of x"),
    "silu": ("SiLU", "silu", "x times the sigmoid of x, also called swish"),
    "tanh": ("Tanh", "tanh", "hyperbolic tangent"),
    "sigmoid": ("Sigmoid", "sigmoid", "1 / (1 + exp(−x))"),
    "softplus": ("Softplus", "softplus", "log(1 + exp(x))"),
}
"""Name → class in `torch.nn`, function in `flax.linen`, help."""

OPTIMIZERS = {
    "adam": ("torch.optim:Adam", "optax:adam", "adaptive moments (Kingma & Ba, 2015)"),
    "adamw": ("torch.optim:AdamW", "optax:adamw", "Adam with decoupled weight decay (Loshchilov & Hutter, 2019)"),
    "nadam": ("torch.optim:NAdam", "optax:nadam", "Adam with Nesterov momentum (Dozat, 2016)"),
    "radam": ("torch.optim:RAdam", "optax:radam", "rectified Adam (Liu et al., 2020)"),
    "rmsprop": ("torch.optim:RMSprop", "optax:rmsprop", "running mean of squared gradients (Hinton, 2012)"),
    "sgd": ("torch.optim:SGD", "optax:sgd", "stochastic gradient descent, optionally with momentum"),
}
"""Name → class in PyTorch, function in JAX, help."""

RMSPROP_TF = "stable_baselines3.common.sb2_compat.rmsprop_tf_like:RMSpropTFLike"

FEATURES_EXTRACTORS = {
    "flatten": ("FlattenExtractor", "one vector of all numbers"),
    "combined": ("CombinedExtractor", "concatenates the arrays of a dictionary; a small CNN for images"),
    "nature_cnn": ("NatureCNN", "three convolutions for images (Mnih et al., 2015)"),
}
"""Name → class in `stable_baselines3.common.torch_layers`, help."""

IMAGE_EXTRACTORS = {
    "frozen": ("FrozenExtractor", "latents of images by a trained encoder that stays as it is, and all numbers"),
    "drq": (
        "DrQExtractor",
        "four convolutions and a small vector for each image (Yarats et al., 2021), and all numbers",
    ),
    "keypoints": (
        "KeypointExtractor",
        "positions of learned keypoints in images (Levine et al., 2016), and the numbers of a dictionary",
    ),
    "resnet": ("ResNetExtractor", "a small residual network for each image (Espeholt et al., 2018), and all numbers"),
}
"""Name → class in `mygym.algos.images`, help."""

for _name, (_torch, _flax, _help) in ACTIVATIONS.items():
    _targets = {"pytorch": f"torch.nn:{_torch}", "jax": f"flax.linen:{_flax}"}
    registry("activation").register(_name, _targets, _help, __name__)
for _name, (_torch, _optax, _help) in OPTIMIZERS.items():
    registry("optimizer").register(_name, {"pytorch": _torch, "jax": _optax}, _help, __name__)
registry("optimizer").register("rmsprop_tf", {"pytorch": RMSPROP_TF}, "RMSProp as in TensorFlow", __name__)
for _name, (_class, _help) in FEATURES_EXTRACTORS.items():
    _target = {"pytorch": f"stable_baselines3.common.torch_layers:{_class}"}
    registry("features_extractor").register(_name, _target, _help, __name__)
for _name, (_class, _help) in IMAGE_EXTRACTORS.items():
    _target = {"pytorch": f"mygym.algos.images:{_class}"}
    registry("features_extractor").register(_name, _target, _help, __name__)
