"""Tasks as sequences of stages: pure functions over batched states, without a simulator."""
