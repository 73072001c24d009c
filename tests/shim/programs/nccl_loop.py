"""Does with NCCL what its stdin says: opened in the ways in which programs open it.

The first argument says how the object in the second one is opened, which calls NCCL: ``local``, ``global`` or ``deep``.
Objects after that are opened first, for all.
"""

from __future__ import annotations

import ctypes
import os
import sys

from command_loop import COMMANDS, serve


def opened() -> ctypes.CDLL:
    """The object that calls NCCL."""
    how, path, *before = sys.argv[1:]
    for other in before:
        ctypes.CDLL(other, mode=os.RTLD_GLOBAL)
    mode = os.RTLD_GLOBAL if "global" in how else os.RTLD_LOCAL
    mode |= os.RTLD_DEEPBIND if "deep" in how else 0
    return ctypes.CDLL(path, mode=mode)


def main() -> None:
    """Until stdin ends."""
    caller = opened()
    caller.use_nccl.restype = ctypes.c_char_p

    def nccl(*words: str) -> str:
        return str(caller.use_nccl(" ".join(words).encode()).decode())

    def returns(result: str) -> None:
        """From now on NCCL's calls have that result."""
        os.environ["NCCL_RESULT"] = result

    serve(COMMANDS | {"nccl": nccl, "returns": returns})


if __name__ == "__main__":
    main()
