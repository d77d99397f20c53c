"""What one run is: its directory, evaluation, callbacks, state, saved policy, film and result."""
