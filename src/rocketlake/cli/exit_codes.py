"""The exit codes of all commands, and which error has which.

Owns        the codes with their meaning; docs/how-to/cli.md has the same table.
Must not know   single commands.
"""

from __future__ import annotations

import enum

from rocketlake.base.errors import (
    ConflictError,
    LinkError,
    NotThereError,
    RemoteError,
    RocketLakeError,
    UsageError,
)

__all__ = ["MEANINGS", "ExitCode", "NotConfirmedError", "exit_code_of"]


class ExitCode(enum.IntEnum):
    """What scripts can tell apart."""

    DONE = 0
    FAILED = 1
    USAGE = 2
    NOT_THERE = 3
    CONFLICT = 4
    NOT_ALLOWED = 5
    NOT_REACHED = 6
    FINDINGS = 8
    NOT_CONFIRMED = 9
    INTERRUPTED = 130


MEANINGS = {
    ExitCode.DONE: "done; also a dry run, and a list with nothing in it",
    ExitCode.FAILED: "failed: a server refused, or something unexpected",
    ExitCode.USAGE: "wrong usage: an option, a name or a file that makes no sense",
    ExitCode.NOT_THERE: "there is no such topic, group, message, broker, user or context",
    ExitCode.CONFLICT: "the state forbids it: it exists already, has members, or messages would come out of reach",
    ExitCode.NOT_ALLOWED: "not allowed: no such user, wrong secret, no permission",
    ExitCode.NOT_REACHED: "no server answers, or none in time",
    ExitCode.FINDINGS: "it was looked at, and is not well: a broker does not answer, a user is refused",
    ExitCode.NOT_CONFIRMED: "the question was answered with no, or nobody could answer it",
    ExitCode.INTERRUPTED: "ended by Ctrl-C before it was done",
}

_NOT_THERE = {17, 22, 26, 211, 3001, 3002}
"""Codes of protocol/response_code.py: topic, offset or key, group, broker, user, policy."""
_EXISTS, _NO_PERMISSION = 18, 16


class NotConfirmedError(UsageError):
    """Nobody can answer the question of a command."""


def exit_code_of(error: RocketLakeError) -> ExitCode:
    """The code that a command ends with after this error."""
    from rocketlake.client.errors import SendFailed
    from rocketlake.net.network import CannotListen

    if isinstance(error, SendFailed) and error.refusal is not None:
        error = error.refusal
    if isinstance(error, RemoteError):
        if error.code in _NOT_THERE:
            return ExitCode.NOT_THERE
        return {_EXISTS: ExitCode.CONFLICT, _NO_PERMISSION: ExitCode.NOT_ALLOWED}.get(error.code, ExitCode.FAILED)
    if getattr(error, "is_read_only", False):  # NoRoute: the topic is there, and takes no messages
        return ExitCode.CONFLICT
    for kind, code in (
        (CannotListen, ExitCode.FAILED),  # a LinkError, though nobody was asked
        (NotConfirmedError, ExitCode.NOT_CONFIRMED),
        (NotThereError, ExitCode.NOT_THERE),
        (ConflictError, ExitCode.CONFLICT),
        (LinkError, ExitCode.NOT_REACHED),
        (UsageError, ExitCode.USAGE),
    ):
        if isinstance(error, kind):
            return code
    return ExitCode.FAILED
