"""AccountWatch: sees that the file of a server's accounts was changed by another process.

Owns        the pause between two looks.
Must not know   the file, and what is in it (auth/account_file.py).
"""

from __future__ import annotations

from typing import Final

from rocketlake.auth.account_file import AccountFile
from rocketlake.base.clock import Clock
from rocketlake.base.service import Service

__all__ = ["AccountWatch"]

_LOOK_SECONDS: Final = 2.0


class AccountWatch(Service):
    """Looks for changes while it runs."""

    def __init__(self, file: AccountFile, clock: Clock) -> None:
        super().__init__("accounts", clock)
        self._file = file

    async def start(self) -> None:
        """Start to look."""
        await super().start()
        self.every("look at accounts", _LOOK_SECONDS, self._file.refresh)
