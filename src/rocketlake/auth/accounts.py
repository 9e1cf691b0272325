"""Accounts: the users of a server and their policies, and the two questions that a gate asks.

Owns        the tables; who signed a request; whether a user may do something.
Must not know   requests and connections, the file (account_file.py).

`edition` grows with each change: what was decided holds as long as it is the same.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from rocketlake.auth.action import AccessRefused, Need
from rocketlake.auth.policy import Acl, Verdict
from rocketlake.auth.signature import ACCESS_KEY, SIGNATURE, is_signed_by
from rocketlake.auth.user import User, check_user
from rocketlake.base.callbacks import call_each
from rocketlake.base.errors import UsageError

__all__ = ["Accounts"]

_USERS_MAX: Final = 100_000
_ENTRIES_MAX: Final = 1_000
_HINT_SIGN: Final = (
    "give the client the access key and the secret key of a user; `rocketlake` takes them by --credentials FILE, or"
    " from ROCKETMQ_ACCESS_KEY and ROCKETMQ_SECRET_KEY"
)


class Accounts:
    """Users and policies by the name of the user. They are replaced, never changed: a reader may keep what it got."""

    def __init__(self, users: Mapping[str, User] | None = None, acls: Mapping[str, Acl] | None = None) -> None:
        self.users: dict[str, User] = dict(users or {})
        self.acls: dict[str, Acl] = dict(acls or {})
        self.edition = 0
        self.on_change: list[Callable[[], None]] = []
        """Called behind each change."""

    def replace(self, users: Mapping[str, User], acls: Mapping[str, Acl]) -> None:
        """Take other tables in place of the present ones."""
        self.users, self.acls = dict(users), dict(acls)
        self.edition += 1
        call_each(self.on_change)

    def put_user(self, user: User) -> None:
        """Make or replace a user; the last super user stays one. Raises UsageError."""
        check_user(user)
        if user.name not in self.users and len(self.users) >= _USERS_MAX:
            raise UsageError(f"there are {_USERS_MAX} users already", hint="delete users that are not needed")
        users = {**self.users, user.name: user}
        self._check_super(user.name, users)
        self.replace(users, self.acls)

    def drop_user(self, name: str) -> None:
        """Delete a user and its policies; the last super user stays. Raises UsageError."""
        users = {known: user for known, user in self.users.items() if known != name}
        self._check_super(name, users)
        self.replace(users, {known: acl for known, acl in self.acls.items() if known != name})

    def _check_super(self, name: str, users: Mapping[str, User]) -> None:
        """UsageError if a change of this user would leave nobody who may do all, where somebody may now."""
        if _has_super(self.users) and not _has_super(users):
            raise UsageError(f"{name} is the last super user", hint="make another one first")

    def put_acl(self, name: str, acl: Acl) -> None:
        """Replace the policies of a user. Raises UsageError."""
        if name not in self.users:
            raise UsageError(f"there is no user {name}", hint="create it first")
        if len(acl.entries) > _ENTRIES_MAX:
            raise UsageError(
                f"user {name} would have {len(acl.entries)} entries, at most {_ENTRIES_MAX} are taken",
                hint="use prefixes, such as Topic:orders-*",
            )
        acls = {known: its for known, its in self.acls.items() if known != name}
        self.replace(self.users, {**acls, name: acl} if acl.entries else acls)

    def signer(self, fields: Mapping[str, str], body: bytes, *, version: int) -> User:
        """The user who signed a request. Raises AccessRefused: nobody did. No text has a secret."""
        name = fields.get(ACCESS_KEY, "")
        if not name or not fields.get(SIGNATURE):
            raise AccessRefused("this server takes only signed requests", hint=_HINT_SIGN)
        user = self.users.get(name)
        # A name that nobody has costs the same as a wrong secret, and is told in the same words.
        secret = user.password if user is not None else "unknown"
        if not is_signed_by(secret, fields, body, version=version) or user is None:
            raise AccessRefused(f"user {name[:128]} is not known, or the signature is not its own", hint=_HINT_SIGN)
        if not user.is_enabled:
            raise AccessRefused(f"user {name} is disabled", hint="have an administrator enable it")
        return user

    def certified(self, name: str) -> User:
        """The user whom a checked certificate names. Raises AccessRefused: nobody, or a disabled one."""
        user = self.users.get(name)
        if user is None:
            raise AccessRefused(
                f"the certificate of this link names {name[:128]!r}, and there is no such user",
                hint="have an administrator make that user, or sign the requests as another one",
            )
        if not user.is_enabled:
            raise AccessRefused(f"user {name} is disabled", hint="have an administrator enable it")
        return user

    def verdict(self, user: User, need: Need, host: str) -> Verdict:
        """May the user do it from this host?"""
        if user.is_super:
            return Verdict(True, f"{user.name} is a super user")
        return self.acls.get(user.name, Acl()).verdict(need, host)

    def check(self, user: User, need: Need, host: str, what: str) -> None:
        """Return if the user may do it, else raise AccessRefused. `what` names the request."""
        verdict = self.verdict(user, need, host)
        if not verdict.allowed:
            raise AccessRefused(
                f"{what}: user {user.name} from {host} lacks {need}: {verdict.why}",
                hint=f"have an administrator allow it: rocketlake acl allow {user.name} "
                f"{need.actions[0].value} {need.kind.value}:{need.name or '*'}",
            )


def _has_super(users: Mapping[str, User]) -> bool:
    return any(user.is_super and user.is_enabled for user in users.values())
