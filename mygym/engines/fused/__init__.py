"""The fused engine: thousands of robot arms, with a box each, in one array; no simulator."""
