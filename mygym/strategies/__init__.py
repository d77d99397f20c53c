"""Built-in strategies, which work with any algorithm. Given as import strings: a class is imported at its first use.

strategy              `Strategy`, the base class
requirements          requirements of strategies on a run
curriculum            easier tasks first
curriculum_levels     built-in levels of a curriculum
multitask             several tasks in one run
gradient_bandit       sampling weights learned from rewards
ewc                   one task after the other
mixture               several networks in one policy
demos                 demonstrations in reinforcement learning
demonstration_replay  replay minibatches with demonstrations
distill               a student and its teachers
teachers              teachers of a student
teacher_config        teachers of a config
losses                losses in addition to an algorithm's loss
gaussians             divergence of Gaussian policies
fine_tuning           `bitfit` and `lora`
low_rank              low-rank changes of linear layers
"""

from mygym.registry import registry
from mygym.strategies.strategy import Requirement, Strategy, register_strategy

__all__ = ["Requirement", "Strategy", "register_strategy"]

BUILT_IN = {
    "standard": ("mygym.strategies.strategy:Strategy", "one task, one network"),
    "curriculum": ("mygym.strategies.curriculum:Curriculum", "easier tasks first; advances by success rate"),
    "multitask": ("mygym.strategies.multitask:MultiTask", "several tasks in one run with one network"),
    "ewc": (
        "mygym.strategies.ewc:EWC",
        "several tasks one after the other; elastic weight consolidation against forgetting",
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
    "distill": ("mygym.strategies.distill:Distill", "a student learns from the scripted expert or from trained runs"),
}

for _name, (_target, _help) in BUILT_IN.items():
    registry("strategy").register(_name, _target, _help, origin=__file__)
