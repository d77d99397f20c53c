"""Reports from run directories alone: statistics over seeds, the index of runs, comparisons of settings."""
