"""What sleeping programs cost on a real GPU: the rows of RESULTS.md, "Sleeping".

    PYTHONPATH=src:. python bench/gpu/sleep.py --output FOLDER [--only NAME ...] [--simulate]

``card``      what a sleeping program has on the card
``wake``      a request to a sleeping program, by the size of what it has
``files``     a request to a program whose host memory is in a file
``many``      more programs than there is room for contexts
``rush``      programs that start at the same moment, with room for fewer contexts
``alike``     programs with the same data that sleep
``crowd``     programs that are never idle, with room for fewer contexts
``floor``     a program of normal priority beside such ones of a high one
``meeting``   ranks on one device whose kernels wait for each other, beside idle programs
``pair``      a process with data on two devices; without ``--simulate``
``ranks``     a job of two ranks with NCCL on two devices; without ``--simulate``
``contents``  trainings of frameworks that sleep again and again, bit by bit; without ``--simulate``

As ``swap.py`` otherwise. The scheduler may checkpoint what it starts itself: it runs as the same user.
"""

from __future__ import annotations

from bench.gpu.experiments import sleepers, sleepers_of_two
from bench.gpu.running import experiments
from bench.gpu.running.experiments import Experiment
from bench.gpu.swap import touch_host_memory

EXPERIMENTS = {
    "card": Experiment(sleepers.card, 90),
    "wake": Experiment(sleepers.wake, 240),
    "files": Experiment(sleepers.files, 240),
    "many": Experiment(sleepers.many, 400),
    "rush": Experiment(sleepers.rush, 240),
    "alike": Experiment(sleepers.alike, 240),
    "crowd": Experiment(sleepers.crowd, 300),
    "floor": Experiment(sleepers.floor, 400),
    "meeting": Experiment(sleepers.meeting, 240),
    "pair": Experiment(sleepers_of_two.pair, 180, devices=2),
    "ranks": Experiment(sleepers_of_two.ranks, 400, devices=2),
    "contents": Experiment(sleepers.contents, 570),
}

if __name__ == "__main__":
    experiments.main(__doc__ or "", "sleep", EXPERIMENTS, touch_host_memory)
