"""Sweeps: search for the values of a config whose runs are the best.

space               ranges in a config: the parameters of a sweep
settings            the section `sweep` of a sweep file, and the complete sweep
checking            check of the whole space before the first trial
objective           score of a run, and of the runs of a trial
samplers            samplers, pruners and the journal of Optuna
executors           `submit`, `poll`, `stop`: processes that execute the runs of trials
remote              execution of a run on a machine of a cluster
ray_executor        tasks of a Ray cluster
slurm_executor      jobs of a Slurm cluster
memory              memory that a run needs
batch               execution of a list of runs
trial_runs          runs of a trial: their folders, commands and outcomes
past                finished runs in other folders, as trials
search              the search: asks for trials, executes their runs, stops bad trials, resumes
run                 new and resumed sweeps
population          population-based training in place of trials
population_results  its lineage, best config and figure
train_on            more env steps for the best trials
storage             folder of a sweep: its files, creation and lock
results             table, best config, Pareto front, importance of the parameters
watch               state of a sweep that another process executes
figures             slices, parallel coordinates, Pareto front
"""
