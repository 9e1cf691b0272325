"""The handle by which a message that waits for its time is taken back.

Owns        what it names, and its text.
Must not know   who gives it, what a recall does.

Source: Java RecallMessageHandle.HandleV1: URL-safe Base64 with padding of "v1 topic broker time id".
"""

from __future__ import annotations

import base64
import binascii
from typing import NamedTuple

from rocketlake.base.errors import UsageError

__all__ = ["RecallHandle"]

_VERSION = "v1"
_SEPARATOR = " "


class RecallHandle(NamedTuple):
    """Names one waiting message."""

    topic: str
    broker_name: str
    due_text: str
    """Epoch ms: one more than TIMER_OUT_MS, so that it leads to the same tick."""
    message_id: str

    @property
    def due_ms(self) -> int:
        """The time in it; -1 if it is none."""
        text = self.due_text
        return int(text) if text.isascii() and text.isdigit() and len(text) < 19 else -1

    def to_text(self) -> str:
        """As producers get it."""
        return base64.urlsafe_b64encode(_SEPARATOR.join((_VERSION, *self)).encode()).decode()

    @classmethod
    def of_text(cls, text: str) -> RecallHandle:
        """UsageError for a text that is no handle."""
        try:
            raw = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True).decode()
        except (binascii.Error, UnicodeError, ValueError):
            raw = ""
        version, *parts = raw.split(_SEPARATOR)
        if version != _VERSION or len(parts) < 4:
            raise UsageError(
                "recall handle is invalid", where=text[:80], hint="give the recall_handle of the send's result"
            )
        return cls(*parts[:4])
