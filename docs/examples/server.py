"""A model's server, as plain as one can be: data that stays on the GPU, an HTTP port, and an answer to each request.

python server.py PORT MIB

It needs the CUDA driver and the package nvshare, no framework, and runs on the simulated GPUs, too. It does nothing for
nvshare, nor for its sleep.

    GET /health/gpu    "ok", after a question to the GPU: that wakes a server that sleeps
    GET, other paths   "ok", and nobody asks the GPU: it sleeps on
    POST, any path     the GPU looks through all the data: {"right": true, "seconds": 0.02}
"""

from __future__ import annotations

import json
import sys
import threading
import time
from ctypes import c_uint64
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from nvshare import simgpu
from nvshare.demo.driver import Driver

MIB = 1 << 20
STRIDE = 512
"""A number is in every page of 4 KiB."""
THREADS = 256


class Model:
    """The data on the GPU, on which all answers depend."""

    def __init__(self, mib: int) -> None:
        self._driver = Driver()
        self._driver.use(0)
        self._one_at_a_time = threading.Lock()
        module = self._driver.load(simgpu.KERNELS_PTX.read_bytes() + b"\0")
        stamp, self._count_wrong = (
            self._driver.function(module, f"nvs_{name}_u64") for name in ("stamp", "count_wrong")
        )
        self._wrong = self._driver.allocate(8)
        self._driver.clear(self._wrong, 8)
        self._numbers = mib * MIB // (8 * STRIDE)
        data = self._driver.allocate(mib * MIB)
        self._arguments = (c_uint64(data), c_uint64(1), c_uint64(self._numbers), c_uint64(STRIDE))
        self._driver.launch(stamp, self._numbers // THREADS, THREADS, self._arguments)
        self._driver.synchronize()

    def is_right(self) -> bool:
        """All data is as it was written, whatever became of it between two requests."""
        with self._one_at_a_time:
            # Each request has a thread of its own, which has no context yet.
            self._driver.use(0)
            arguments = (*self._arguments, c_uint64(self._wrong))
            self._driver.launch(self._count_wrong, self._numbers // THREADS, THREADS, arguments)
            return self._driver.read(self._wrong, 8) == bytes(8)

    def wait(self) -> None:
        """A question to the GPU that computes nothing."""
        with self._one_at_a_time:
            self._driver.use(0)
            self._driver.synchronize()


class Requests(BaseHTTPRequestHandler):
    """What a client of the server may ask."""

    model: Model

    def do_GET(self) -> None:
        """Is it well?"""
        if self.path == "/health/gpu":
            self.model.wait()
        self._answer("text/plain", b"ok\n")

    def do_POST(self) -> None:
        """A request, whatever is in it."""
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        began = time.monotonic()
        answer = {"right": self.model.is_right(), "seconds": round(time.monotonic() - began, 3)}
        self._answer("application/json", json.dumps(answer).encode() + b"\n")

    def log_message(self, *_: object) -> None:
        """No line for each request."""

    def _answer(self, kind: str, body: bytes) -> None:
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def main() -> None:
    """Serves until it is killed."""
    port, mib = int(sys.argv[1]), int(sys.argv[2])
    Requests.model = Model(mib)
    with ThreadingHTTPServer(("127.0.0.1", port), Requests) as server:
        print(f"ready: http://127.0.0.1:{server.server_port}", flush=True)
        server.serve_forever()


if __name__ == "__main__":
    main()
