"""How fast a controller suspects.

Owns        the profiles and their times.
Must not know   what follows from a suspicion.
"""

from __future__ import annotations

from enum import Enum

__all__ = ["Profile"]


class Profile(Enum):
    """Values of the setting `controllerProfile`. A wrong suspicion costs a switch of the master, never a message."""

    FAST = "fast"
    CALM = "calm"

    @property
    def limit_seconds(self) -> float:
        """No broker counts as silent earlier, whatever it says itself."""
        return 1.0 if self is Profile.FAST else 3.0
