"""Why a message failed, as a property of its copy (LAST_ERROR, DAMAGE).

Owns        which characters and how many of them are kept.
Must not know   who failed, where the copy goes.
"""

from __future__ import annotations

__all__ = ["error_property", "error_text"]

CHARS_MAX = 500


def error_property(text: str) -> str:
    """The text on one line, at most 500 characters: a property cannot hold line ends or separators of properties."""
    return "".join(c if c.isprintable() else " " for c in text[:CHARS_MAX])


def error_text(error: BaseException) -> str:
    """Its type and its words: `ValueError: no such account`."""
    return error_property(f"{type(error).__name__}: {error}")
