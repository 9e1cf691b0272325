"""The entry point `rocketlake`.

Owns        turning an error into words and an exit code, the state of standard input and output.
Must not know   which commands there are (tree.py).

Modules of RocketLake are imported inside `main`: a Ctrl-C while Python still reads them ends without a traceback.
"""

from __future__ import annotations

import io
import os
import sys

__all__ = ["main"]

_ENDED_BY_CTRL_C = 130


def main() -> None:
    """Exit codes: exit_codes.py. An error is told on standard error, with cause and cure."""
    try:
        _ready_streams()
        _run()
    except KeyboardInterrupt:
        raise SystemExit(_ENDED_BY_CTRL_C) from None


def _ready_streams() -> None:
    """Escape characters that the terminal's encoding lacks; open the null device for a closed stream (`<&-`).

    Otherwise a socket may get the number of the closed stream, and libuv ends the process.
    """
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest number that is free
            setattr(sys, name, os.fdopen(number, "w" if number else "r"))
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _run() -> None:
    from rocketlake.base.errors import RocketLakeError
    from rocketlake.cli.exit_codes import exit_code_of
    from rocketlake.cli.extras import missing_extra
    from rocketlake.cli.output import fail
    from rocketlake.cli.tree import app

    try:
        app()
    except RocketLakeError as error:
        fail(error)
        raise SystemExit(int(exit_code_of(error))) from None
    except ImportError as error:
        cause = missing_extra(error)
        if cause is None:
            raise
        fail(cause)
        raise SystemExit(1) from None


if __name__ == "__main__":
    main()
