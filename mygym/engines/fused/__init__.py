"""The fused engine: thousands of robot arms, with a box each, in one array; no simulator.

arrays          the array namespace: numpy or torch
random_numbers  random numbers that follow from seed, episode and index
kinematics      forward kinematics and Jacobian of a batch of arms
controller      the end-effector controller of a batch
motors          motor model, with accelerations fitted to Bullet (`motors.yaml`)
arm             a batch of arms
gripper         two fingers whose width follows the command (`fingers.yaml`: shapes)
contact         planar contact of a disc with a box
box             a box that slides, is pushed, falls and rests
grasp           when two fingers hold a box, carry it, and let it go
world           an arm with its fingers and box
placement       starts of objects, and goals
episodes        goals, progress and automatic resets of a batch of episodes
randomization   randomized parameters, delayed and noisy actions, noise of observations
captured_step   a step on a GPU as a CUDA graph
starts          episodes that begin along the expert's
"""
