"""Reports from run directories alone: statistics, index of runs, comparisons, leaderboards, diagnoses.

records       index of runs: a record of each run directory
removal       removal of runs, with or without an archive
settings      settings: runs that differ in their seeds alone
selection     selection of runs for figures and reports
statistics    statistics of few seeds
curves        learning curves of runs and settings
final_scores  performance profiles, and scores over the values of a hyperparameter
comparison    comparison of settings
panels        style of figures
figures       figures in Matplotlib
tables        tables as CSV, Markdown and LaTeX
markup        HTML of a report
report        report on runs in one HTML file
sweep_files   files of a sweep that a report shows
judgement     judgement of runs on fresh episodes
leaderboard   leaderboard of judged runs
doctor        reasons why a run does not learn
"""
