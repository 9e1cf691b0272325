"""What a client of etcd must be told.

Owns        addresses, account, certificates, deadlines; the TLS context made of them.
Must not know   the name server's settings, which are where these come from.
"""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from rocketlake.base.errors import UsageError

__all__ = ["EtcdSettings", "read_addresses", "tls_context"]


@dataclass(frozen=True, slots=True)
class EtcdSettings:
    """Times are seconds."""

    addresses: str
    """Every member: `https://10.0.0.1:2379;https://10.0.0.2:2379`, all with the same scheme."""
    root: str = "/rocketlake/v1/"
    """In front of each key in etcd."""
    user: str = ""
    password_file: Path | None = None
    ca_file: Path | None = None
    """Certificates that vouch for the members'; None: those that the machine trusts."""
    certificate_file: Path | None = None
    key_file: Path | None = None
    unsafe_versions: bool = False
    """For tests only: take versions whose members can diverge."""
    try_seconds: float = 0.3
    """One member has so long at first; a request that meets an election would be held for many seconds."""
    log_in_seconds: float = 1.5
    """One member has so long to give a token: it compares a slow hash."""
    ask_seconds: float = 3.0
    """All tries of one request together."""
    poll_seconds: float = 1.0
    """Pause between looks at what changed, beside the watch."""

    def password(self) -> str:
        """The first line of the password's file."""
        if self.password_file is None:
            raise UsageError(f"no password of the etcd account {self.user}", hint="set controllerEtcdPasswordFile")
        try:
            return self.password_file.read_text().split("\n", 1)[0].strip()
        except (OSError, UnicodeDecodeError) as error:
            raise UsageError(
                f"the password of the etcd account cannot be read: {error}",
                where=str(self.password_file),
                hint="let controllerEtcdPasswordFile name a text file that this user may read",
            ) from None


def read_addresses(text: str) -> list[tuple[str, int]]:
    """Host and port of each member. Raises UsageError."""
    found = []
    for part in text.replace(",", ";").split(";"):
        if not part.strip():
            continue
        try:
            url = urlsplit(part.strip())
            host, port = url.hostname, url.port or 2379
        except ValueError:
            host = None
        if host is None or url.scheme not in ("http", "https") or url.path not in ("", "/"):
            raise _wrong_addresses(f"{part.strip()!r} is no address of etcd")
        found.append((host, port))
    if not found:
        raise _wrong_addresses("no address of etcd is given")
    if len({part.strip()[:6] == "https:" for part in text.replace(",", ";").split(";") if part.strip()}) > 1:
        raise _wrong_addresses("some addresses of etcd are encrypted, some are not")
    return list(dict.fromkeys(found))


def tls_context(settings: EtcdSettings) -> ssl.SSLContext | None:
    """For https addresses: checks the members' certificates and names; None for http. Raises UsageError."""
    if not settings.addresses.strip().startswith("https:"):
        return None
    path: Path | None = settings.ca_file
    try:
        context = ssl.create_default_context(cafile=path)
        path = settings.certificate_file
        if path is not None:
            context.load_cert_chain(path, settings.key_file)
    except (OSError, ssl.SSLError) as error:
        raise UsageError(
            f"the certificates for etcd cannot be used: {error}",
            where=str(path),
            hint="let controllerEtcdCaFile, controllerEtcdCertFile and controllerEtcdKeyFile name PEM files that this"
            " user may read",
        ) from None
    context.set_alpn_protocols(["http/1.1"])
    return context


def _wrong_addresses(what: str) -> UsageError:
    return UsageError(what, hint="set controllerEtcdAddresses to http://host:2379;http://host2:2379, or https of all")
