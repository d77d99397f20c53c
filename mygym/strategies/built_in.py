"""Table of the built-in strategies, with import strings: a class is imported at its first use."""

from mygym.registry import registry

BUILT_IN = {
    "standard": ("mygym.strategies.strategy:Strategy", "one task, one network"),
    "curriculum": ("mygym.strategies.curriculum:Curriculum", "easier tasks first; advances by success rate"),
    "multitask": ("mygym.strategies.multitask:MultiTask", "several tasks in one run with one network"),
    "ewc": (
        "mygym.strategies.ewc:EWC",
        "several tasks one after the other; elastic weight consolidation against forgetting",
    ),
    "reptile": (
        "mygym.strategies.reptile:Reptile",
        "meta-learning: weights from which each of several tasks is learned in few steps",
    ),
    "mixture": (
        "mygym.strategies.mixture.mixture:Mixture",
        "several networks in one policy, chosen by stage, task, sampler or gate",
    ),
    "demos": ("mygym.strategies.demos:Demos", "demonstrations in replay, as a warm start and as a loss"),
    "bitfit": ("mygym.strategies.fine_tuning:BitFit", "fine-tuning: trains the biases of a pretrained policy alone"),
    "lora": (
        "mygym.strategies.fine_tuning:LoRA",
        "fine-tuning: trains low-rank changes of a pretrained policy's layers",
    ),
    "ia3": (
        "mygym.strategies.fine_tuning:IA3",
        "fine-tuning: trains factors of the activations of a pretrained policy",
    ),
    "bottleneck": (
        "mygym.strategies.fine_tuning:Bottleneck",
        "fine-tuning: trains small networks after a pretrained policy's layers",
    ),
    "distill": ("mygym.strategies.distill:Distill", "a student learns from the scripted expert or from trained runs"),
}

for _name, (_target, _help) in BUILT_IN.items():
    registry("strategy").register(_name, _target, _help, origin=__file__)
