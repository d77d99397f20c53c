"""Networks that find objects in images, and networks that encode images."""
