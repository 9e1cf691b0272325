"""Numbers with their nouns, in texts of errors and of steps.

Owns        the plural of a noun.
Must not know   the terminal, separators of thousands.
"""

from __future__ import annotations

__all__ = ["counted", "noun"]


def counted(number: int, what: str) -> str:
    """ "1 message", "2000 messages", "3 queries", "7 days"."""
    return f"{number} {noun(number, what)}"


def noun(number: int, what: str) -> str:
    """The noun for so many."""
    if number == 1:
        return what
    has_consonant = what.endswith("y") and what[-2:-1] not in "aeiou"  # queries, but days
    return f"{what[:-1]}ies" if has_consonant else f"{what}s"
