"""Server of the dashboard: API and pages in one process, and the jobs that it starts.

server     binds, prints the address, serves
guard      token, Host, Origin and sizes of all requests and websockets
api        REST API
service    all that API and pages share
run_index  runs of the log directory, their curves and files
jobs       processes that train and evaluate
queue      queue of jobs in SQLite
helper     process for all work that needs torch or Bullet
player     process that plays an environment for the 3-D page
pages      pages
"""
