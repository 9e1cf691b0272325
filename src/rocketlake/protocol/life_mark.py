"""The mark of a broker's life: what of its word may be told to any asker.

Owns        how a word becomes a mark.
Must not know   who compares marks, who may know words.

A controller believes a member that comes back from another host by the word under which it was registered last
(controller/serving/askers.py). So the word itself is told to controllers only, and never given in an answer.
"""

from __future__ import annotations

from hashlib import sha256

__all__ = ["life_mark"]

_CHARACTERS = 16


def life_mark(life: str) -> str:
    """The mark of this word; "" of none. Equal words have equal marks, and a mark does not give its word away."""
    return sha256(life.encode()).hexdigest()[:_CHARACTERS] if life else ""
