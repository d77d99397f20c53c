"""Cameras, scenes, textures and thumbnails."""
