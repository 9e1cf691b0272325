"""What an HTTP server here is asked and answers.

Owns        the values of a question and an answer.
Must not know   bytes on the wire, who asks, pages.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import TypeAlias

__all__ = ["TEXT", "HttpReply", "Page", "text_reply"]

TEXT = "text/plain; charset=utf-8"


@dataclass(frozen=True, slots=True)
class HttpReply:
    """An answer. Its parts are made while it is written: no more of it is in memory than the peer takes."""

    parts: AsyncIterator[bytes]
    status: int = 200
    content_type: str = TEXT


Page: TypeAlias = Callable[[], HttpReply]
"""Makes the answer to GET. What follows a `?` is passed over: no page takes words from its address."""


def text_reply(text: str, status: int = 200, content_type: str = TEXT) -> HttpReply:
    """A short answer."""

    async def parts() -> AsyncIterator[bytes]:
        yield text.encode()

    return HttpReply(parts(), status, content_type)
