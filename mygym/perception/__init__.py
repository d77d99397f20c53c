"""Perception: what cameras see. Networks that find objects in images, and networks that encode images.

network           the network of a detector: the body that each pixel shows, and the way from there to its middle
detector          `Detector`: segmentation and positions of the objects in frames
training          trains a detector on recorded images, and measures its errors
keypoints         the network that finds learned keypoints in images
standardizer      mean and variance of the inputs of a network
vae               the autoencoder: keypoints, latents, decoder
encoder           `Encoder`: the latents of a camera's image
encoder_training  trains an autoencoder on recorded images, and measures its errors
recorded          `Images`: recorded images with the bodies that they show
fitting           training by minibatches, which keeps the best weights
network_files     files of networks, with the conditions of their training
"""
