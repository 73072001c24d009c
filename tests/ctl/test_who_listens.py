"""Who listens at the admin socket is no scheduler."""

from __future__ import annotations

import os
import socketserver
import threading

import pytest

from nvshare.paths import RunDir
from tests.ctl.program import ctl


class _NoScheduler(socketserver.BaseRequestHandler):
    """Says what no scheduler says, and goes."""

    def handle(self) -> None:
        self.request.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")


@pytest.mark.parametrize("arguments", [["status"], ["status", "--watch"], ["set", "quantum", "3"], ["timeline"]])
def test_what_listens_is_no_scheduler(run_dir: RunDir, arguments: list[str]) -> None:
    """It is named: to say that nobody answers would send people after a scheduler that has ended."""
    run_dir.admin_socket.parent.mkdir(parents=True)
    with socketserver.ThreadingUnixStreamServer(str(run_dir.admin_socket), _NoScheduler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            done = ctl(run_dir, *arguments)
        finally:
            server.shutdown()
            thread.join()
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 1)
    what = f"pid {os.getpid()} listens at {run_dir.admin_socket} and does not speak as a scheduler does"
    assert done.stderr.startswith(f"nvshare-ctl: {what}: ")
    assert "choose another --run-dir" in done.stderr
