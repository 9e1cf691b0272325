"""The one way in which rights say no.

Owns        the exception that carries a response code, its words, and Apache's reason number of a refused read.
Must not know   which check refuses, what an answer looks like.
"""

from __future__ import annotations

from rocketlake.base.errors import RemoteError

__all__ = ["Refused"]


class Refused(RemoteError):
    """A check said no. `forbidden_type` is the field forbiddenType of an answer, None where Apache has no number."""

    def __init__(self, what: str, *, code: int, hint: str = "", forbidden_type: str | None = None) -> None:
        super().__init__(what, code=code, hint=hint)
        self.forbidden_type = forbidden_type
