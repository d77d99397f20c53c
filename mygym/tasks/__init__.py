"""Tasks as sequences of stages: pure functions over batched states, without a simulator.

task                `Task`, and `register_task`
subtask             `SubTask`: stages, object or part, and goal
binding             slots of goals, and relations between the stages of a task
lookup              `find_task`
named               the built-in named tasks
grammar             letters and stage names → a valid sequence of stages
sentences           tasks in plain words
clauses             grammar of sentences
descriptions        descriptions of sub-tasks in plain words
torch_namespace     array functions of torch without copies to the device
task_params         a task with changed numbers and objects
task_objects        objects of a task
validation          checks of numbers
subgoal_conflicts   checks that sub-goals do not collide
stage               `Stage`, and `register_stage`
stages              the built-in stages
predicate           `Predicate`, its registration and look-up
predicates          built-in predicates that stages require and give
context             inputs and commands of the functions of stages
episode_context     input of observation components and rewards
state               physical state of a batch of worlds
progress            state of a task between control steps
episode             progress, potential and expert of an episode
goal_terms          terms of goal vectors
goals               goal vectors
rewards             rewards
camera_view         input of camera components
observations        lists of observation components
components          the built-in observation components
shared              shared spaces
sampling            sampling of positions
"""
