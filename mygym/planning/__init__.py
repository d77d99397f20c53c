"""Planning of a run: from the user's values to a complete config and the `RunPlan`."""
