"""Several processes that train the same model, each with a share of the environments (config key `learners`)."""
