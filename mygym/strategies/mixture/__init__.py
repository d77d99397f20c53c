"""Strategy `mixture`: super-networks of several candidates, and the search for a path through them.

- `mixture`: the strategy and its parameters.
- `protocols`: forward protocols and the checks of their numbers (no torch).
- `routing`: selection of a candidate by the observation (its stage or task).
- `samplers`: the passes of the next rollout, decided by a registered sampler.
- `path_search`: the best path of a trained super-network; `run_search`: the search for a run.
- `forward_state`, `supernet`: the torch modules.
- `network_slots`, `policies`: policies of any algorithm with super-networks in place of their networks.
"""
