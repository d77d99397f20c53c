"""Training on a GPU: environments of the fused engine, networks and buffers in tensors.

steps               steps of policy and environments
rollout_collection  rollouts of PPO
rollouts            rollout buffers
ppo_update          updates of PPO
replay_collection   steps of algorithms with a replay buffer
gradients           gradients as CUDA graphs
replay_updates      gradient steps of SAC, TD3 and DQN
off_policy          mixin that chooses these for an algorithm
"""
