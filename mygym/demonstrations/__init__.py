"""Demonstrations: recording, storage, loading, checks and replay of episodes; images of episodes.

collection        `demonstrate`: a new dataset from the episodes of a policy
recording         recording of an episode
keyboard          policy that is driven by the keyboard
sliders           sliders of the window
episodes          data classes of recorded episodes
storage           Minari datasets
lerobot           data sets in the format of LeRobotDataset v3.0
images            `record_images`: images of episodes as a COCO data set
coco              masks, boxes and categories in COCO's format
recorded_images   reading of such a data set
detectors         `train_detector`: detectors of objects, trained on recorded images
encoders          `train_encoder`: encoders of images, trained on recorded images
network_training  file, progress and interruption of such a training
folders           folders of data sets, complete or absent
loading           loading of a dataset
compatibility     checks that demonstrations fit a run
replays           `replay`: comparison of repeated episodes with the stored episodes
"""

from mygym.demonstrations.compatibility import check_compatible, variant_indices
from mygym.demonstrations.episodes import Demonstration, Demonstrations, Transitions
from mygym.demonstrations.loading import load_demonstrations

__all__ = [
    "Demonstration",
    "Demonstrations",
    "Transitions",
    "check_compatible",
    "load_demonstrations",
    "variant_indices",
]
