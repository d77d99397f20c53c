"""Built-in algorithms.

defaults            class, defaults and help of each algorithm
networks            activations, optimisers and feature extractors
stable_baselines    algorithms of Stable-Baselines3
bootstrapping       values of truncated episodes, computed together
device              package: steps and updates of algorithms that stay on a GPU
contrib             algorithms of sb3-contrib
sbx                 algorithms of SBX, in JAX
sbx_ppo             PPO of SBX with fewer calls
ddqn                double Q-learning
ppo_runner          PPO as a runner
cem                 cross-entropy method as a runner
imitation           behaviour cloning and DAgger
asymmetric          policies whose critic sees the state and whose actor sees images
image_networks      networks for images, and trained encoders as such networks
image_augmentation  random shifts of images
imitation_policies  policy of the imitation
"""
