"""The mark of a broker's life: what of its word may be told to any asker.

Owns        how a word becomes a mark.
Must not know   who compares marks, who may know words.

A controller believes a member that comes back from another host by the word under which it was registered last
(controller/serving/askers.py). So the word itself is told to controllers only, and never given in an answer.
"""

from __future__ import annotations

from hashlib import sha256

__all__ = ["NO_LIFE", "life_mark"]

_CHARACTERS = 16
NO_LIFE = "none"
"""In place of a mark, to an asker that is registered without a life: one that has a life has to register again.

A word, as the binary header drops empty texts; a controller that tells nothing (Apache's) knows no lives at all.
"""


def life_mark(life: str) -> str:
    """The mark of this word; "" of none. Equal words have equal marks, and a mark does not give its word away."""
    return sha256(life.encode()).hexdigest()[:_CHARACTERS] if life else ""
