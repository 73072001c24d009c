"""Which devices there are: ``python -m nvshare.demo.device_list`` prints them as JSON, in a process of its own."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict

from nvshare.demo.driver import CudaError, Driver
from nvshare.demo.report import DeviceInfo


def main() -> int:
    """Prints a list of devices; on failure a line on stderr and exit code 1."""
    try:
        driver = Driver()
        found = [
            DeviceInfo(driver.device_uuid(ordinal), driver.device_name(ordinal), driver.total_memory(ordinal))
            for ordinal in range(driver.device_count())
        ]
    except CudaError as error:
        print(error, file=sys.stderr)
        return 1
    print(json.dumps([asdict(device) for device in found]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
