"""Execution of a training run: directory, environments, callbacks, checkpoints, evaluation, videos, result.

Before the run:

planning               the user's values → complete config and `RunPlan`
env_factory            environments of a plan
model_factory          model of a plan
built_config           config with the values that constructors decide
devices                devices and threads of the frameworks
frozen_encoders        trained encoders as networks: files and checks
pretrained             start from an earlier run

The run:

branching              copies of a run that continue with other hyperparameters
starting               start of a new or a stopped run
session                the part of a run in one process
resuming               config and checkpoint of a stopped run
run_state              state of a whole run
checkpoints            checkpoints on disk
stop_request           Ctrl-C, SIGTERM and SIGHUP
clock                  clock that continues in a resumed run
final_evaluation       final evaluation and videos

Environments and buffers:

vec_envs               vector environments: worker processes, images, routes of mixtures
workers                several processes that train the same model
overlapping            gradient steps while the environments step
variance_floor         normalisation with a floor
device_normalizer      the same in tensors, on a GPU
multi_task_her         hindsight replay over several tasks
imitation_buffer       buffer of observations and teacher actions
frame_replay           replay buffer that stores each image once
device_replay          replay buffers in tensors on the device of the networks

Callbacks:

marks                  env-step numbers at which callbacks act
callbacks              `register_callback`, and the callbacks of a config
nested_callbacks       search among nested callbacks
user_callbacks         runs the user's callbacks
evaluation_callback    evaluates the policy
checkpoint_callbacks   write or load checkpoints
divergence_callback    detects divergence
schedule_callback      scheduled hyperparameters
strategy_callback      runs the strategies
progress_bar           reports progress
trackers               Weights & Biases and MLflow
section_times          times of environment, rollout, update and evaluation
layer_statistics       statistics of the layers of the networks

Custom training loops:

runner                 `Runner`
jax_runner             `JaxRunner`
loop                   `Loop`, the steps and evaluations of a runner
curves                 curves of a runner
optimization           losses evaluated repeatedly, parameter groups

Results:

directory              names, creation and lock of the run directory
files                  atomic writing
logs                   append-only log files
result                 `Result`, the content of result.json
evaluation             evaluation over seeded episodes
video                  videos of episodes
policy                 `Policy`, a saved network with its normaliser
weights                weights of a policy's networks by name
loading                config and policy of a trained run
"""
