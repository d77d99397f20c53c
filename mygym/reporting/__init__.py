"""Reports from run directories alone: statistics, index of runs, comparisons, leaderboards, diagnoses."""
