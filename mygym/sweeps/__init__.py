"""Sweeps: search for the values of a config whose runs are the best.

space      ranges in a config: the parameters of a sweep
settings   the section `sweep` of a sweep file, and the complete sweep
checking   check of the whole space before the first trial
objective  score of a run, and of the runs of a trial
samplers   samplers, pruners and the journal of Optuna
executors  `submit`, `poll`, `stop`: processes that execute the runs of trials
trial_runs runs of a trial: their folders, commands and outcomes
search     the search: asks for trials, executes their runs, stops bad trials, resumes
run        new and resumed sweeps
storage    folder of a sweep: its files, creation and lock
results    table, best config, importance of the parameters
figures    slices and parallel coordinates
"""
