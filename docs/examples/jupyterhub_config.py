"""What JupyterHub's configuration needs for nvshare, where it starts the users' servers as programs of its machine.

docs/notebooks.md says how to try it on a simulated GPU.
"""

import re

c = get_config()  # noqa: F821


def container(spawner):
    """All programs of a user count as one, whose name has nothing that nvshare refuses, and a number of its own."""
    name = re.sub(r"[^A-Za-z0-9._-]", "-", spawner.user.name)
    return f"{name[:32]}.{spawner.user.id}"


c.Spawner.cmd = ["nvshare-ctl", "run", "--memory-limit", "8GiB", "--sleep", "idle", "--", "jupyterhub-singleuser"]
c.Spawner.environment = {"NVSHARE_CONTAINER": container}

# For a scheduler in a folder of its own, and for simulated GPUs.
c.Spawner.env_keep.extend(["NVSHARE_RUN_DIR", "NVSHARE_SIMGPU_DIR", "NVSHARE_SIMGPU_DEVICES"])
