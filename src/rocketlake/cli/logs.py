"""The servers' log lines: their form (time, level, logger, text; or JSON), and the file they go to.

Owns        the log options of the servers, the handler, opening the file anew on SIGHUP.
Must not know   which modules log, and what they say.
"""

from __future__ import annotations

import enum
import json
import logging
import logging.handlers
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Self

import typer

from rocketlake.base.errors import RocketLakeError

__all__ = ["LOG_FORM_DEFAULT", "LogFile", "LogForm", "LogFormat", "LogLevel", "LogSize", "Logs", "Severity"]


class Severity(enum.Enum):
    """The least severe lines that are shown."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


class LogForm(enum.Enum):
    """How a line looks."""

    TEXT = "text"
    JSON = "json"


LogLevel = Annotated[Severity, typer.Option("--log-level", help="Show log lines of this level and above.")]
LogFormat = Annotated[LogForm, typer.Option("--log-format", help="text: time level logger text; or json.")]
LogFile = Annotated[
    Path | None,
    typer.Option(
        "--log-file", help="Append to this file, not to standard error; SIGHUP opens it anew.", show_default=False
    ),
]
LogSize = Annotated[
    int,
    typer.Option(
        "--log-max-mb",
        min=0,
        help="Begin a new --log-file at this size, and keep ten old ones as FILE.1, FILE.2 ...; 0: it grows.",
    ),
]
LOG_FORM_DEFAULT = LogForm.TEXT
_FILES_KEPT = 10


class Logs:
    """The log of a server: a handler of the process until the `with` block ends. RocketLakeError if the file cannot be
    written.
    """

    def __init__(self, level: Severity, form: LogForm, file: Path | None, max_mb: int = 0) -> None:
        """`max_mb`: a file of that size is put aside; 0: none is."""
        try:
            self._handler: logging.Handler = (
                logging.StreamHandler(sys.stderr) if file is None else _File(file.expanduser().absolute(), max_mb << 20)
            )
        except OSError as error:
            hint = "give --log-file a file in a folder that exists and that you may write to"
            raise RocketLakeError(f"the log cannot be written: {error.strerror}", where=str(file), hint=hint) from None
        self._handler.setFormatter(_Json() if form is LogForm.JSON else _Text())
        root, own = logging.getLogger(), logging.getLogger("rocketlake")
        self._levels = root.level, own.level
        root.addHandler(self._handler)
        root.setLevel(max(logging.WARNING, level_number(level)))
        own.setLevel(level_number(level))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        # The standard error of this command may be closed before the process ends (a test, a program around it).
        root, own = logging.getLogger(), logging.getLogger("rocketlake")
        root.removeHandler(self._handler)
        root.setLevel(self._levels[0])
        own.setLevel(self._levels[1])
        self._handler.close()

    def reopen(self) -> None:
        """Open the log file anew, on SIGHUP: logrotate has moved the old one away."""
        if not isinstance(self._handler, _File):
            logging.getLogger(__name__).warning("SIGHUP: no log file to reopen; going on")
        elif self._handler.reopen():
            logging.getLogger(__name__).warning("SIGHUP: the log file is opened anew")


def level_number(level: Severity) -> int:
    """The number of this level in the logging module."""
    return int(getattr(logging, level.name))


class _File(logging.handlers.RotatingFileHandler):
    def __init__(self, file: Path, bytes_max: int) -> None:
        super().__init__(file, maxBytes=bytes_max, backupCount=_FILES_KEPT, encoding="utf-8", errors="backslashreplace")

    def reopen(self) -> bool:
        self.acquire()
        try:
            before, self.stream = self.stream, self._open()
            if before is not None:
                before.close()
            return True
        except OSError as error:  # lines go on into the old file: better there than nowhere
            logging.getLogger(__name__).error("the log file %s cannot be opened anew: %s", self.baseFilename, error)
            return False
        finally:
            self.release()


def _time(record: logging.LogRecord) -> str:
    return datetime.fromtimestamp(record.created, tz=UTC).astimezone().isoformat(timespec="milliseconds")


_SHOWN = {code: f"\\x{code:02x}" for code in (*range(32), *range(127, 160))} | {9: "\\t", 10: "\\n", 13: "\\r"}


class _Text(logging.Formatter):
    """Control characters in a text, which may come from a peer, are escaped: neither lines nor a terminal are forged.

    Line breaks of tracebacks stay.
    """

    def format(self, record: logging.LogRecord) -> str:
        text = record.getMessage().translate(_SHOWN)
        line = f"{_time(record)} {record.levelname} {record.name} {text}"
        return f"{line}\n{self.formatException(record.exc_info)}" if record.exc_info else line


class _Json(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        line = {"time": _time(record), "level": record.levelname, "logger": record.name, "text": record.getMessage()}
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False)
