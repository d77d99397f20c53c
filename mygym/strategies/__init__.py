"""Strategies, which work with any algorithm.

strategy              `Strategy`, the base class
built_in              table of the built-in strategies
requirements          requirements of strategies on a run
curriculum            easier tasks first
curriculum_levels     built-in levels of a curriculum
multitask             several tasks in one run
gradient_bandit       sampling weights learned from rewards
ewc                   one task after the other
reptile               weights from which tasks are learned in few steps
mixture               several networks in one policy
demos                 demonstrations in reinforcement learning
demonstration_replay  replay minibatches with demonstrations
distill               a student and its teachers
teachers              teachers of a student
teacher_config        teachers of a config
losses                losses in addition to an algorithm's loss
gaussians             divergence of Gaussian policies
fine_tuning           `bitfit`, `lora`, `ia3` and `bottleneck`
adapters              linear layers with few trained parameters
"""

from mygym.strategies.strategy import Requirement, Strategy, register_strategy

__all__ = ["Requirement", "Strategy", "register_strategy"]
