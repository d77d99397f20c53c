"""Start of the programs `mygym`, `train.py` and `evaluate.py`: Ctrl-C ends them with one line while Python imports."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from mygym.python_version import is_program
from mygym.training.stop_request import StopRequest  # little else, because a signal meanwhile causes a traceback

INTERRUPTED = ("interrupted", 130)
"""Message and exit code after Ctrl-C, SIGTERM or SIGHUP."""


@contextmanager
def interruptible_import() -> Iterator[None]:
    """End the process with one line at a signal during imports; do nothing if the program is not mygym's."""
    if not is_program():
        yield
        return
    with StopRequest(immediate=True) as stop:
        gc.disable()  # nothing that is imported is garbage: a tenth of the time of `--help`
        try:
            yield
            gc.freeze()
            gc.enable()
        except BaseException:  # a library may have replaced the KeyboardInterrupt, e.g. by an ImportError
            if not stop.received:
                raise
            stop.ending = True
            message, code = INTERRUPTED
            with suppress(OSError):  # standard error is closed
                os.write(2, f"{message}\n".encode())
            os._exit(code)
