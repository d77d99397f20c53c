"""Engines, which integrate the physics of worlds: `bullet` is the judge and the default, `fused` has thousands."""
