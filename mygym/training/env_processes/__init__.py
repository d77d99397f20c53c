"""Vector environments of runs.

worker_vec_env     environments in worker processes
worker_process     start, requests and end of a worker process
worker_main        code of a worker process
episode_monitor    returns and lengths of the episodes
transposed_images  images with the channels first
routed_vec_env     observations with a route through the networks of a mixture
"""
