"""Files of a ROS 2 package whose node lets an exported policy drive a robot; in `ros2/`."""

from __future__ import annotations

from mygym.cli.new.request import Request
from mygym.cli.new.templating import fill
from mygym.errors import ConfigError, bad_value

COMMANDS = {
    "position": "joint_trajectory    trajectory_msgs/JointTrajectory: a point for the end of the period",
    "velocity": "velocity_commands   std_msgs/Float64MultiArray, rad/s",
}
"""Mode of a controller → line of the node's documentation."""


def ros2_files(request: Request) -> dict[str, str]:
    """Return the files of a ROS 2 package.

    Raises:
        ConfigError: The request has no policy, or a node cannot run it.
        RegistryError: onnxruntime is not installed.
    """
    from mygym.exporting.deployment import DeployedPolicy

    if request.policy is None:
        raise ConfigError(bad_value("--policy", None, "an .onnx file of `mygym export`", "is missing"))
    policy = DeployedPolicy(request.policy)
    needed = "\n".join(f"        {name}: {size} numbers" for name, size in policy.needs.items()) or "        none"
    values = {"policy": str(request.policy.resolve()), "needed": needed, "commands": COMMANDS[policy.mode]}
    folder = f"ros2/{request.name}"
    return {
        f"{folder}/{request.name}/node.py": fill("ros2_node.py", request, **values),
        f"{folder}/{request.name}/__init__.py": "",
        f"{folder}/package.xml": fill("ros2_package.xml", request),
        f"{folder}/resource/{request.name}": "",
        f"{folder}/setup.cfg": fill("ros2_setup.cfg", request),
        f"{folder}/setup.py": fill("ros2_setup.py", request),
    }
