"""Gymnasium environments: one id per named task, and `mygym/Gym-v0` for any task.

ids                  Gymnasium ids, without importing a simulator
arguments            checks of arguments of environments
robot_env            the environment of one task
discrete_actions     discrete actions of any controller
snapshot             quick snapshots for planners
multi_task_env       several environments as a single environment: an episode is played in one of them
task_world           construction of the world of a task
compatibility        checks that task, robot and workspace fit together
areas                areas of a task: resolution, reachability and room
graspability         checks of objects and grippers
home                 check of the start of a robot that the user sets
supported            supported combinations of task, robot and workspace
episode              goals and progress of the current episode
episode_seeds        seeds of episodes
placement            poses and goals of an episode
domain_randomizer    domain randomization of an environment
randomizers          the built-in randomizers
observation_spec     contents and layout of observations
observation_builder  observations and their spaces
episode_observer     observations and goal vectors of the current step
observation_checks   checks of their components
camera_views         views of cameras for observations
detected_objects     positions of objects that a detector sees
image_encoders       encoders of the latents in observations
image_history        last images of each component
lerobot              observations with the names of LeRobot
env_renderer         images of an environment
env_window           window of an environment
fused_envs           environments of the fused engine
fused_randomization  draws of randomizers for the fused engine
fused_vec_env        the fused engine as a vector environment of SB3
fused_vector_env     the fused engine as a vector environment of Gymnasium
fused_support        tasks, robots and workspaces that the fused engine represents
"""
