"""Planning of a run: from the user's values to a complete config and the `RunPlan`.

resolve_config         the user's values and the registries → the complete config
python_values          config values given from Python, as plain data
config_layers          preferences of algorithm, task, strategies and engine
hyperparameter_checks  checks of hyperparameters and training parameters
component_names        check of the names in a config
derived                values that follow from other values
buffer_memory          memory of replay buffers
image_checks           checks of runs whose observations have images
engines                arguments and limits of the engines
training_worker_checks refusals of runs that several processes cannot train
strategies             construction of the strategies
variants               task variants of a run
worker_count           choice of the number of worker processes
parameter_tables       parameters of algorithms, strategies and controllers as rows of a table
plan                   `RunPlan`, the complete description of a run
requirements           requirements of algorithms on the environment
exploration            exploration noise given as a number
rollouts               length of a rollout
mistakes               all mistakes of a config, for forms and the API
"""
