"""Tasks as sequences of stages: pure functions over batched states, without a simulator.

`task` and `lookup` define tasks, `episode` runs them, `stages`, `predicates`, `goals`, `rewards` and `components`
define their elements.
"""
