"""One case of a sweep: `python -m transevolve.training.case RECIPE`, which stops when its parent process ends.

Standard input is a pipe to the parent. When it closes, training saves a checkpoint and stops.
"""

import os
import signal
import sys
from threading import Thread

from ..cli import main


def stop_with_parent() -> None:
    os.read(sys.stdin.fileno(), 1)
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stderr.fileno())
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    Thread(target=stop_with_parent, daemon=True).start()
    sys.exit(main(["train", *sys.argv[1:]]))
