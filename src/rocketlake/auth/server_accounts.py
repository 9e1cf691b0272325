"""The accounts of one server, by its settings.

Owns        which file it is, who is made at the first start, what the server signs with as a client of others.
Must not know   requests; which server it is.
"""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from rocketlake.auth.account_file import AccountFile
from rocketlake.auth.admin_access import is_loopback
from rocketlake.auth.credentials import Credentials
from rocketlake.auth.user import User, UserType
from rocketlake.base.disk.seam import Files
from rocketlake.base.errors import UsageError

__all__ = ["AUTH_SETTINGS", "AuthSettings", "ServerAccounts", "check_open"]

AUTH_SETTINGS = (
    "authenticationEnabled",
    "authorizationEnabled",
    "certificateUsers",
    "accountsPath",
    "initAuthenticationUser",
    "innerClientAuthenticationCredentials",
)
"""Their names in the files of broker and name server."""


class AuthSettings(Protocol):
    """The settings of broker and name server about users."""

    @property
    def authentication_enabled(self) -> bool: ...
    @property
    def allow_unauthenticated(self) -> bool: ...
    @property
    def listen_host(self) -> str: ...
    @property
    def authorization_enabled(self) -> bool: ...
    @property
    def certificate_users(self) -> bool: ...
    @property
    def accounts_path(self) -> str: ...
    @property
    def first_user(self) -> str: ...
    @property
    def inner_credentials(self) -> str: ...


class ServerAccounts:
    """`file`: None on a server without users. `audit_path`: of the server alone, also if servers share their accounts.

    UsageError: settings that contradict each other.
    """

    def __init__(self, settings: AuthSettings, default_path: Path, files: Files) -> None:
        if settings.authorization_enabled and not settings.authentication_enabled:
            raise UsageError(
                "authorizationEnabled without authenticationEnabled would believe any name",
                hint="set authenticationEnabled=true, too",
            )
        if settings.certificate_users and not settings.authentication_enabled:
            raise UsageError(
                "certificateUsers without authenticationEnabled would let in every certificate",
                hint="set authenticationEnabled=true, too",
            )
        self._first: list[User] = []
        self._own: Credentials | None = None
        if settings.first_user:
            first = Credentials.parse(settings.first_user, "initAuthenticationUser", ("username", "password"))
            self._first.append(User(first.access_key, first.secret_key, UserType.SUPER))
        if settings.inner_credentials:
            self._own = own = Credentials.parse(settings.inner_credentials, "innerClientAuthenticationCredentials")
            self._first.append(User(own.access_key, own.secret_key, UserType.SUPER))
        path = Path(settings.accounts_path).expanduser() if settings.accounts_path else default_path
        self.file = AccountFile(path, files) if settings.authentication_enabled else None
        self.audit_path = default_path.with_name("audit.jsonl")

    def load(self) -> None:
        """Read the users, make those that the settings name. StoreError if the file cannot be read."""
        if self.file is not None:
            self.file.load(tuple(self._first))

    def credentials(self) -> Credentials | None:
        """What the server signs its own requests with; None if it signs none."""
        if self._own is not None or self.file is None:
            return self._own
        users = self.file.accounts.users
        own = next((users[name] for name in sorted(users) if users[name].is_super and users[name].is_enabled), None)
        return None if own is None else Credentials(own.name, own.password)


def check_open(settings: AuthSettings) -> str:
    """What to say at the start about who may ask, "" for nothing. UsageError: strangers could, and nobody said so."""
    if settings.authentication_enabled or is_loopback(settings.listen_host):
        return ""
    if not settings.allow_unauthenticated:
        raise UsageError(
            f"bindAddress={settings.listen_host} opens the server to a network, and nobody would be asked who it is",
            hint="set authenticationEnabled=true (docs/how-to/access_control.md), or allowUnauthenticated=true in a "
            "network that you trust",
        )
    return f"everybody who reaches {settings.listen_host} may send and read (allowUnauthenticated=true)"
