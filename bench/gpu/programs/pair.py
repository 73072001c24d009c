"""One process with data on two GPUs, as a model in two parts has it; the orders are those of job.py, for both."""

from __future__ import annotations

from job import Job, Torch
from orders import Answer, serve


class Pair:
    """A job on each of the first two devices."""

    def __init__(self) -> None:
        self._jobs = [Job(Torch(ordinal)) for ordinal in (0, 1)]

    def hold(self, size: int) -> None:
        """So much on each."""
        for job in self._jobs:
            job.hold(size)

    def run(self, steps: int) -> Answer:
        """So many steps on each, one after the other."""
        answers = [job.run(steps) for job in self._jobs]
        return {"begun": answers[0]["begun"], "ended": answers[1]["ended"]}

    def digest(self) -> Answer:
        """Of both."""
        return {"digest": " ".join(str(job.digest()["digest"]) for job in self._jobs)}


if __name__ == "__main__":
    pair = Pair()
    serve({order.__name__: order for order in (pair.hold, pair.run, pair.digest)})
