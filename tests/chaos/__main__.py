"""``python -m tests.chaos``: the long form of the chaos test, as ``make chaos`` runs it.

Prints the seed at once: with ``--seed`` the same deeds are done again in the same order.
"""

from __future__ import annotations

import argparse
import secrets
import shutil
import sys
import tempfile
from pathlib import Path

from tests.chaos import chaos, deeds, floods

CONNECTIONS = 100_000


def main() -> int:
    """Exit status 0: everything held."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=deeds.__doc__)
    parser.add_argument("--seconds", type=float, default=600.0, help="how long things are done to the programs")
    parser.add_argument("--connections", type=int, default=CONNECTIONS, help="how many connections come then")
    parser.add_argument("--seed", type=int, default=secrets.randbits(32))
    options = parser.parse_args()
    print(f"seed {options.seed}", flush=True)
    folder = Path(tempfile.mkdtemp(prefix="nvshare-chaos-"))
    try:
        with chaos.running(folder, options.seed) as node:
            deeds.rage(node, options.seconds, lambda line: print(line, flush=True))
            grown = floods.memory_growth(node, options.connections)
            print(f"after {options.connections} connections the scheduler's memory has grown by {grown / 1024:.0f} KiB")
            node.calm_down()
            node.check()
            rounds = sum(place.rounds for place in node.programs)
    except AssertionError as error:
        print(f"seed {options.seed}: {error}\nlogs and records are in {folder}", file=sys.stderr)
        return 1
    shutil.rmtree(folder)
    done = ", ".join(f"{count} {name}" for name, count in sorted(node.done.items()))
    print(f"no overlap, nobody stuck, {rounds} rounds right, {node.started} schedulers; {done}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
