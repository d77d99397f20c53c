"""Strategy `mixture`: super-networks of several candidates, and the search for a path through them."""
