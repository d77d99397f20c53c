"""Strategy `mixture`: super-networks with several experts, and the search for a path through them."""
