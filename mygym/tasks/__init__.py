"""Tasks as sequences of stages: pure functions over batched states, no simulator. Start with `task`, `episode`."""
