"""Physics simulation with PyBullet."""
