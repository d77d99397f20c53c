"""Perception: what cameras see. Networks that find objects in images.

network    the network: which body each pixel shows, and the way from there to the middle of that body
detector   `Detector`: segmentation and positions of the objects in frames; its file
training   trains a detector on recorded images, and measures its errors
"""
