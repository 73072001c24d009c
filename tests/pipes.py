"""What programs that tests start say."""

from __future__ import annotations

import subprocess


def said_to_the_end(process: subprocess.Popen[str], seconds: float) -> tuple[str, str]:
    """Closes its input and waits for its end; what it still said on stdout, and on stderr, which is to be little.

    For a process of which lines were read: ``communicate`` does not see what was read ahead with them.
    """
    if process.stdin is not None:
        process.stdin.close()
    assert process.stdout is not None
    assert process.stderr is not None
    output, errors = process.stdout.read(), process.stderr.read()
    process.wait(seconds)
    return output, errors
