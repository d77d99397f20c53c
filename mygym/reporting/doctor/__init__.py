"""Doctor: rules that explain from the logs of a run why it does not learn."""
