"""Logger names, and warnings that do not flood.

Owns        the names of our loggers, the pause before a warning is repeated.
Must not know   handlers and formats (cli).
"""

from __future__ import annotations

import enum
import logging

from rocketlake.base.clock import Clock, SystemClock

__all__ = ["LogLevel", "RareWarnings", "get_logger", "set_level"]

_KEYS_MAX = 1024
_ROOT = "rocketlake"


class LogLevel(enum.Enum):
    """The least severe lines that are shown. The names are those of a settings file."""

    as_started = 0
    debug = logging.DEBUG
    info = logging.INFO
    warning = logging.WARNING
    error = logging.ERROR


def set_level(level: LogLevel) -> None:
    """Show the lines of our modules from this level on; `as_started` changes nothing."""
    if level is not LogLevel.as_started:
        logging.getLogger(_ROOT).setLevel(level.value)


def get_logger(name: str) -> logging.Logger:
    """The logger of a module (pass `__name__`)."""
    return logging.getLogger(name)


class RareWarnings:
    """Warnings by key: each at most once per interval, with the count of the warnings left out."""

    def __init__(self, logger: logging.Logger, *, interval_seconds: float = 10.0, clock: Clock | None = None) -> None:
        self._logger = logger
        self._interval = interval_seconds
        self._clock: Clock = clock or SystemClock()
        self._said: dict[str, tuple[float, int]] = {}

    def warn(self, key: str, text: str, *args: object) -> bool:
        """Log `text % args` unless `key` was logged within the interval; returns whether it was logged."""
        return self._log(logging.WARNING, key, None, text, *args)

    def info(self, key: str, text: str, *args: object) -> bool:
        """The same at level INFO."""
        return self._log(logging.INFO, key, None, text, *args)

    def error(self, key: str, error: BaseException | None, text: str, *args: object) -> bool:
        """The same at level ERROR, with the traceback of `error` if there is one."""
        return self._log(logging.ERROR, key, error, text, *args)

    def _log(self, level: int, key: str, error: BaseException | None, text: str, *args: object) -> bool:
        now = self._clock.monotonic()
        last, left_out = self._said.get(key, (float("-inf"), 0))
        if now - last < self._interval:
            self._said[key] = (last, left_out + 1)
            return False
        if len(self._said) >= _KEYS_MAX and key not in self._said:
            self._said.clear()  # keys may come from peers: forget counts rather than grow
        self._said[key] = (now, 0)
        if left_out:
            text += f" (and {left_out} more like this)"
        self._logger.log(level, text, *args, exc_info=error)
        return True
