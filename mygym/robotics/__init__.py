"""Descriptions of robots, workspaces and objects, their geometry and kinematics, and controllers. No simulator."""
