"""What a refusal of etcd means for the one who asked: the one table of its codes.

Owns        the table: ask elsewhere, log in again, or give up; whether a change may have been made all the same.
Must not know   the network, requests.

etcd puts the wrong code on several refusals, so its text is looked at first. A refusal that is not in the table may
have come after the change was proposed: only those listed as `before` came surely before it.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

__all__ = ["Next", "Refusal", "refusal_of"]


class Next(Enum):
    """What helps after a refusal."""

    ELSEWHERE = "another member may answer"
    LOG_IN = "a new token may help"
    NO_ACCOUNTS = "the cluster has no accounts: go on without a token"
    GIVE_UP = "no member will answer otherwise"


@dataclass(frozen=True, slots=True)
class Refusal:
    """A row of the table. `is_before`: surely no change was proposed. `hint` is the cure, "" where waiting is one."""

    next: Next
    is_before: bool = False
    hint: str = ""


_ELSEWHERE = Refusal(Next.ELSEWHERE)
_LOG_IN = Refusal(Next.LOG_IN, is_before=True)
_GIVE_UP = Refusal(Next.GIVE_UP, is_before=True)

_BY_TEXT = {
    "invalid auth token": _LOG_IN,
    "user name is empty": _LOG_IN,  # a request without a token; its code says INVALID_ARGUMENT
    "revision of auth store is old": _LOG_IN,  # as above: an account changed since the token was given
    "authentication is not enabled": Refusal(Next.NO_ACCOUNTS, is_before=True),
    "authentication failed": Refusal(
        Next.GIVE_UP, is_before=True, hint="give the name and password of an etcd account with controllerEtcdUser"
    ),
    "permission denied": Refusal(
        Next.GIVE_UP, is_before=True, hint="grant the account read and write on the prefix: docs/how-to/etcd.md"
    ),
    "database space exceeded": Refusal(
        Next.GIVE_UP, is_before=True, hint="compact and defragment etcd, then `etcdctl alarm disarm`"
    ),
    "too many requests": Refusal(Next.ELSEWHERE, is_before=True),
    "not a primary lessor": _ELSEWHERE,  # code UNKNOWN
    "raft proposal dropped": _ELSEWHERE,  # as above
    "not leader": _ELSEWHERE,  # FAILED_PRECONDITION
    "not supported for learner": _ELSEWHERE,  # as above
}
_BY_CODE = {
    3: _GIVE_UP,  # INVALID_ARGUMENT
    5: _GIVE_UP,  # NOT_FOUND
    7: _BY_TEXT["permission denied"],
    11: _GIVE_UP,  # OUT_OF_RANGE: a revision that was compacted
    12: _GIVE_UP,  # UNIMPLEMENTED
    16: _LOG_IN,  # UNAUTHENTICATED
}


def refusal_of(code: int, text: str) -> Refusal:
    """The row for a code of gRPC and the text that came with it."""
    for part, row in _BY_TEXT.items():
        if part in text:
            return row
    return _BY_CODE.get(code, _ELSEWHERE)
