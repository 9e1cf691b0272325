"""Settings of encrypted connections: who encrypts, and the file that names certificates and keys.

Owns        names, defaults and reasons of the settings in the file; which of Apache's are refused; its default place.
Must not know   contexts made of them (certificates.py), sockets.

Names are those of Apache's TlsSystemConfig. Defaults differ where Apache's trust everybody (docs/decisions/0041).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Final

from rocketlake.base.errors import UsageError
from rocketlake.base.settings.config_file import load_together, setting

__all__ = ["DEFAULT_FILE", "TLS_SETTINGS", "ClientAuth", "TlsChoice", "TlsFile", "TlsMode", "read_tls_file"]

DEFAULT_FILE: Final = Path("/etc/rocketmq/tls.properties")
"""Read when it is there and no other file is named, as Apache's servers and clients do."""

TLS_SETTINGS: Final = ("tlsMode", "useTLS", "tlsConfigFile")
"""The settings of every server."""


class TlsMode(Enum):
    """Which connections a server takes. The names are those of a settings file."""

    disabled = "disabled"
    permissive = "permissive"
    enforcing = "enforcing"


class ClientAuth(Enum):
    """Whether a server asks its clients for a certificate. The names are those of a settings file."""

    none = "none"
    optional = "optional"
    require = "require"


@dataclass(frozen=True, slots=True)
class TlsChoice:
    """What the settings of a server or client say."""

    mode: TlsMode = TlsMode.disabled
    """Of the listeners."""
    use_tls: bool = False
    """Connections made from here are encrypted."""
    file: str = ""
    """The file of certificates and keys; empty: DEFAULT_FILE if that is there."""

    @property
    def dials(self) -> bool:
        """True if connections made from here are encrypted: a server that takes no plain ones makes none."""
        return self.use_tls or self.mode is TlsMode.enforcing


@dataclass(frozen=True, slots=True)
class TlsFile:
    """What the file of certificates and keys says. All paths name PEM files."""

    server_cert_path: str = setting(
        "", java="tls.server.certPath", why="certificate of the servers here, with those between it and its authority"
    )
    server_key_path: str = setting("", java="tls.server.keyPath", why="key of that certificate")
    server_key_password: str = setting("", java="tls.server.keyPassword", why="password of an encrypted key")
    server_need_client_auth: ClientAuth = setting(
        ClientAuth.none,
        java="tls.server.need.client.auth",
        why="none: clients show no certificate; optional: one that is shown is checked; require: each must show one",
    )
    server_auth_client: bool = setting(
        False,
        java="tls.server.authClient",
        why="true goes with optional and require: certificates of clients are checked",
    )
    server_trust_cert_path: str = setting(
        "", java="tls.server.trustCertPath", why="authorities that vouch for the certificates of clients"
    )
    client_cert_path: str = setting(
        "", java="tls.client.certPath", why="certificate that the clients here show; servers are clients of each other"
    )
    client_key_path: str = setting("", java="tls.client.keyPath", why="key of that certificate")
    client_key_password: str = setting("", java="tls.client.keyPassword", why="password of an encrypted key")
    client_auth_server: bool = setting(
        True, java="tls.client.authServer", why="false takes any certificate, also that of an attacker in between"
    )
    client_trust_cert_path: str = setting(
        "",
        java="tls.client.trustCertPath",
        why="authorities that vouch for servers; empty: those of the machine",
    )
    client_server_name: str = setting(
        "",
        java="tls.client.serverName",
        why="the name that the certificate of each server must hold; empty: the host of the address",
    )

    def validate(self) -> None:
        """UsageError for settings that do not go together."""
        for side, certificate, key in (
            ("server", self.server_cert_path, self.server_key_path),
            ("client", self.client_cert_path, self.client_key_path),
        ):
            if bool(certificate) != bool(key):
                raise UsageError(
                    f"of tls.{side}.certPath and tls.{side}.keyPath only one is set",
                    hint="set both, or none of them",
                )
        if self.server_need_client_auth is not ClientAuth.none and not (
            self.server_auth_client and self.server_trust_cert_path
        ):
            raise UsageError(
                f"setting tls.server.need.client.auth = {self.server_need_client_auth.name} would take any certificate",
                hint="set tls.server.authClient=true and tls.server.trustCertPath to the authorities of the clients",
            )


_NOT_SUPPORTED = {"tls.test.mode.enable": ("false",), "tls.ciphers": ("",), "tls.protocols": ("",)}
"""Test mode is a certificate that nobody can check; versions and ciphers are those that OpenSSL takes for safe."""


def read_tls_file(choice: TlsChoice) -> tuple[TlsFile, Path | None]:
    """The settings in the file that `choice` means, and its path; the defaults and None without one. UsageError."""
    path = Path(choice.file).expanduser() if choice.file else DEFAULT_FILE
    if not choice.file and not path.is_file():
        return TlsFile(), None
    try:
        (found,) = load_together([TlsFile], path, not_supported=_NOT_SUPPORTED)
    except UsageError as error:
        error.where = error.where or str(path)
        raise
    assert isinstance(found, TlsFile)
    return found, path
