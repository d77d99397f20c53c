"""Images and windows of a world.

scene        visual bodies in a separate client, which mirror a world's state
camera       images of a world
drawn_shapes visual shapes and poses as plain data, for viewers outside Bullet
viewer       a window that follows a world, with a caption, keys and sliders
appearance   light, colours, textures and camera pose of an episode
thumbnails   images of single objects, and their contact sheet
robot_sheet  a robot from two sides, its hand and the top, with its tool point, fingers and reach
"""
