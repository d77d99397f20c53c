"""Images and windows of a world."""
