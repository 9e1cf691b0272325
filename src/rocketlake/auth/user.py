"""A user: its name, its secret, what it is.

Owns        the values, the limits of names and secrets.
Must not know   how a secret proves a request (signature.py), where users are kept (account_file.py).
"""

from __future__ import annotations

import re
import secrets
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from rocketlake.base.errors import UsageError
from rocketlake.model.quota import NO_QUOTA, Quota

__all__ = ["User", "UserStatus", "UserType", "check_user", "new_password"]

_NAME: Final = re.compile(r"[A-Za-z0-9_.@-]{1,128}")
_PASSWORD_CHARS: Final = (6, 256)


class UserType(Enum):
    """Values of userType."""

    SUPER = "Super"
    """May do everything; policies are not asked."""
    NORMAL = "Normal"


class UserStatus(Enum):
    """Values of userStatus."""

    ENABLE = "enable"
    DISABLE = "disable"


@dataclass(frozen=True, slots=True)
class User:
    """The access key of a client is `name`, its secret key is `password`: a signature needs the secret as it is."""

    name: str
    password: str = field(repr=False)
    type: UserType = UserType.NORMAL
    status: UserStatus = UserStatus.ENABLE
    quota: Quota = NO_QUOTA

    @property
    def is_super(self) -> bool:
        """True if the user may do everything."""
        return self.type is UserType.SUPER

    @property
    def is_enabled(self) -> bool:
        """False for a user whose requests are refused."""
        return self.status is UserStatus.ENABLE


def check_user(user: User) -> None:
    """UsageError for a name or a password that cannot be used. The text does not have the password."""
    if not _NAME.fullmatch(user.name):
        raise UsageError(
            f"{user.name[:40]!r} is no name of a user",
            hint="use 1 to 128 letters, digits and the characters _ . @ -",
        )
    low, high = _PASSWORD_CHARS
    if (
        not low <= len(user.password) <= high
        or user.password.strip() != user.password
        or not user.password.isprintable()
    ):
        raise UsageError(
            f"the password of user {user.name} cannot be used",
            hint=f"give {low} to {high} printable characters, without blanks at the ends",
        )


def new_password() -> str:
    """A password that nobody can guess: 32 letters and digits."""
    return secrets.token_hex(16)
