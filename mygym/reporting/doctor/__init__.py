"""Doctor: rules that explain from the logs of a run why it does not learn.

diagnosis           the list of rules, and the diagnosis of a run
findings            `Finding`: a reason with its evidence and its remedy
logs                logs of a run as arrays
settings_rules      rules on the config
training_rules      rules on episodes and evaluations
optimization_rules  rules on the log of the algorithm
learning_table      env steps in which tasks were learned
"""
