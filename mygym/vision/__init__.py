"""Networks that find objects in images, and networks that encode images.

detector                 `Detector`: segmentation and positions of the objects in frames
detector_network         its network: the body that each pixel shows, and the offset to the centre of the body
detector_training        trains a detector on recorded images, and measures its errors
encoder                  `Encoder`: the latents of a camera's image
vae                      a network of encoders, the autoencoder: keypoints, latents, decoder
vae_training             trains an autoencoder on recorded images, and measures its errors
object_encoder           a network of encoders: the position of each object in the image
object_encoder_training  trains an encoder of objects on recorded images, and measures its errors
unet                     numbers for each pixel of an image
keypoints                the network that finds learned keypoints in images
standardizer             mean and variance of the inputs of a network
recorded                 `Images`: recorded images with the bodies that they show
pictures                 recorded images as an encoder takes them
fitting                  training by minibatches, which keeps the best weights
network_files            files of networks, with the conditions of their training
"""
