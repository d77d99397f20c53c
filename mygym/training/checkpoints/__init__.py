"""Checkpoints on disk: the serialized state of a run.

checkpoints      folders `checkpoints/step_N/`
serialization    trees of plain values and arrays → JSON and safetensors
algorithm_state  state of SB3 algorithms
object_state     state of single attributes
pytrees          JAX arrays and trees of JAX arrays
env_state        state of vector environments and of SB3's logger
random_state     state of the global random generators
replay_log       incremental storage of a replay buffer
receipts         receipts of SB3 files written on this machine
"""
