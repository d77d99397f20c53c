"""Inference of robots from their files alone."""
