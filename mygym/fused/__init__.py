"""The fused engine: thousands of robot arms in one array; no simulator.

arrays          the array namespace: numpy or torch
random_numbers  random numbers that follow from seed, episode and index
kinematics      forward kinematics and Jacobian of a batch of arms
controller      the end-effector controller of a batch
motors          motor model, with accelerations fitted to Bullet (`motors.yaml`)
arm             a batch of arms
episodes        goals, progress and automatic resets of a batch of episodes
"""
