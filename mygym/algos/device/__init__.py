"""Training on a GPU: environments of the fused engine, networks and buffers in tensors."""
