"""The exception tree: one root, and one branch for each question "whose fault is it?".

Owns        RocketLakeError and its branches; the one line of text made of `what`, `where` and `hint`, or of any error.
Must not know   the code that raises. Foreign exceptions are translated at one place in each package.
"""

from __future__ import annotations

from typing import Any

__all__ = [
    "ConflictError",
    "InternalError",
    "LinkError",
    "NotThereError",
    "ProtocolError",
    "RemoteError",
    "RocketLakeError",
    "StoreError",
    "UsageError",
    "error_line",
    "one_line",
]


class RocketLakeError(Exception):
    """Root of all errors raised on purpose: what happened, where, and a hint: the thing to do against it."""

    def __init__(self, what: str, *, where: str = "", hint: str = "") -> None:
        super().__init__(what)
        self.what = what
        self.where = where
        self.hint = hint

    def __str__(self) -> str:
        text = self.what
        if self.where:
            text += f" ({self.where})"
        if self.hint:
            text += f". Cure: {self.hint}"
        return text

    def __reduce__(self) -> tuple[Any, ...]:
        # The default calls cls(*args) and fails on keyword-only arguments; Spark sends errors between processes.
        return _rebuild, (type(self), self.args, self.__dict__)


def _rebuild(kind: type[RocketLakeError], args: tuple[Any, ...], state: dict[str, Any]) -> RocketLakeError:
    error = kind.__new__(kind, *args)
    error.args = args
    error.__dict__.update(state)
    return error


class UsageError(RocketLakeError):
    """The caller: a wrong argument, name, setting or call order."""


class NotThereError(UsageError):
    """The caller names what is not there: a topic, a group, a message, a broker, a user."""


class ConflictError(RocketLakeError):
    """The state of the cluster forbids it: it exists already, is in use, or messages would come out of reach."""


class LinkError(RocketLakeError):
    """The line: no connection, connection lost, no answer in time."""


class ProtocolError(RocketLakeError):
    """The peer sent bytes that cannot be accepted (garbage, lying lengths); the link ends."""


class InternalError(RocketLakeError):
    """RocketLake: a bug; please report it."""


class RemoteError(RocketLakeError):
    """The peer refused: `code` is its response code, `remark` its text, `address` its `host:port`."""

    def __init__(self, what: str, *, code: int, remark: str = "", address: str = "", hint: str = "") -> None:
        super().__init__(what, where=address, hint=hint)
        self.code = code
        self.remark = remark
        self.address = address


class StoreError(RocketLakeError):
    """The disk: `path` is the file, `offset` the byte position in it or -1."""

    def __init__(self, what: str, *, path: str = "", offset: int = -1, hint: str = "") -> None:
        super().__init__(what, where=path if offset < 0 else f"{path} at {offset}".lstrip(), hint=hint)
        self.path = path
        self.offset = offset


_LINE_CHARS_MAX = 500


def one_line(text: str) -> str:
    """The text on one line, at most 500 characters, as a property of a message or a log can hold it."""
    return "".join(c if c.isprintable() else " " for c in text[:_LINE_CHARS_MAX])


def error_line(error: BaseException) -> str:
    """The type of an error and its words on one line: `ValueError: no such account`."""
    return one_line(f"{type(error).__name__}: {error}")
