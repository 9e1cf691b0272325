"""The mark of a broker's life: what of its word may be told to any asker.

Owns        how a word becomes a mark, the text of the marks of a group.
Must not know   who compares marks, who may know words.

A controller believes a member that comes back from another host by the word under which it was registered last
(controller/serving/askers.py). So the word itself is told to controllers only, and never given in an answer.
"""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256

__all__ = ["NO_LIFE", "life_mark", "marks_from_text", "marks_to_text"]

_CHARACTERS = 16
NO_LIFE = "none"
"""In place of a mark, to an asker that is registered without a life: one that has a life has to register again.

A word, as the binary header drops empty texts; a controller that tells nothing (Apache's) knows no lives at all.
"""


def life_mark(life: str) -> str:
    """The mark of this word; "" of none. Equal words have equal marks, and a mark does not give its word away."""
    return sha256(life.encode()).hexdigest()[:_CHARACTERS] if life else ""


def marks_to_text(lives: Mapping[int, str]) -> str:
    """The marks of the words of these broker ids, as `id:mark;id:mark`; those without a word are left out."""
    return ";".join(f"{broker_id}:{life_mark(life)}" for broker_id, life in sorted(lives.items()) if life)


def marks_from_text(text: str) -> dict[int, str]:
    """The mark of each broker id. What is no such pair is left out."""
    pairs = (each.partition(":") for each in text.split(";"))
    return {int(broker_id): mark for broker_id, _, mark in pairs if broker_id.isdecimal() and mark}
