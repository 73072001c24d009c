"""Whether clients that fit a device together do better together or in turns."""
