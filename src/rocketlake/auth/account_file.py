"""The file of a server's accounts: read at the start, again when it was changed, replaced with each change here.

Owns        when the file is read, the first super user.
Must not know   requests; what is in the text (account_text.py).

Only the owner of the process may read the file: a signature needs each secret as it is. Several servers of one machine
may use one file: each sees the changes of the others within seconds (`refresh`).
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from rocketlake.auth.account_text import accounts_text, parse_accounts
from rocketlake.auth.accounts import Accounts
from rocketlake.auth.user import User, UserType, check_user, new_password
from rocketlake.base.disk.saved_json import load_text, save_text
from rocketlake.base.disk.seam import Files
from rocketlake.base.errors import RocketLakeError, StoreError
from rocketlake.base.logs import get_logger

__all__ = ["FIRST_USER", "AccountFile"]

FIRST_USER: Final = "admin"
_log: Final = get_logger(__name__)


class AccountFile:
    """Keeps `accounts` and the file at `path` alike."""

    def __init__(self, path: Path, files: Files) -> None:
        self.accounts = Accounts()
        self.path = path
        self._files = files
        self._seen: tuple[int, int] | None = None
        """Time of change and size of the file that was read."""

    def load(self, first_users: tuple[User, ...] = ()) -> None:
        """Read the file; make `first_users` that it lacks. StoreError if it cannot be read.

        A server without any super user would refuse everybody: it makes the user `admin`, whose password it writes to a
        file beside its accounts.
        """
        self._read()
        accounts = self.accounts
        for user in first_users:
            check_user(user)
        users = accounts.users | {user.name: user for user in first_users if user.name not in accounts.users}
        if not any(user.is_super and user.is_enabled for user in users.values()):
            password, path = new_password(), self.path.with_name("admin_password")
            save_text(self._files, path, f"{password}\n", private=True)
            users[FIRST_USER] = User(FIRST_USER, password, UserType.SUPER)
            _log.warning("there was no super user: %s was made, its password is in %s", FIRST_USER, path)
        if users != accounts.users:
            accounts.replace(users, accounts.acls)
            self.save()

    def save(self) -> None:
        """Write what `accounts` holds. OSError if the disk refuses: then `load` what the file holds."""
        save_text(self._files, self.path, accounts_text(self.accounts.users.values(), self.accounts.acls), private=True)
        self._seen = self._look()

    def refresh(self) -> bool:
        """Read the file again if it was changed; False if nothing is new.

        A file that cannot be read changes nothing, and the log says so.
        """
        if (seen := self._look()) is None or seen == self._seen:
            return False
        try:
            self._read()
        except RocketLakeError as problem:
            self._seen = seen
            _log.error("accounts stay as they were: %s", problem)
            return False
        return True

    def _read(self) -> None:
        seen = self._look()
        text = load_text(self._files, self.path)
        if text is None:
            return
        try:
            users, acls = parse_accounts(text)
        except RocketLakeError as problem:
            raise StoreError(
                f"accounts cannot be read: {problem}",
                path=str(self.path),
                hint="mend the file, or move it away: then a new admin user is made",
            ) from None
        self._files.make_private(self.path)
        self.accounts.replace(users, acls)
        self._seen = seen

    def _look(self) -> tuple[int, int] | None:
        if not self._files.exists(self.path):
            return None
        return self._files.modified_ms(self.path), self._files.size(self.path)
