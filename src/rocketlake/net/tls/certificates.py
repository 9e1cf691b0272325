"""Certificates: the files that the settings name, made into contexts, again when one of them has changed.

Owns        when files are read again, what a context allows, the words for files that cannot be used.
Must not know   connections (stream.py), who serves or asks.

Invariant: files that cannot be used never take the place of those in use.
"""

from __future__ import annotations

import ssl
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from rocketlake.base.clock import Clock
from rocketlake.base.errors import UsageError
from rocketlake.base.logs import RareWarnings, get_logger
from rocketlake.base.service import Service
from rocketlake.net.tls.settings import ClientAuth, TlsChoice, TlsFile, TlsMode, read_tls_file

__all__ = ["Certificates"]

_log: Final = get_logger(__name__)

_LOOK_SECONDS: Final = 5.0
_TROUBLE: Final = "net/certificates"
_VERIFY: Final = {
    ClientAuth.none: ssl.CERT_NONE,
    ClientAuth.optional: ssl.CERT_OPTIONAL,
    ClientAuth.require: ssl.CERT_REQUIRED,
}


class Certificates(Service):
    """The contexts of one server or client. Looks at its files while it runs, and whenever `look` is called."""

    def __init__(self, choice: TlsChoice, clock: Clock | None = None, *, alpn: Sequence[str] = ()) -> None:
        """`alpn`: the protocols above TLS that peers are offered. Raises UsageError, which names the file."""
        super().__init__("certificates", clock)
        self.choice = choice
        self._alpn = list(alpn)
        self.warnings = RareWarnings(_log, clock=self._clock)
        self.server: ssl.SSLContext | None = None
        """For connections that are taken; None: no certificate is set, or the mode is disabled."""
        self.client: ssl.SSLContext | None = None
        """For connections that are made; None: they are plain."""
        self.server_name = ""
        """The name that a server's certificate must hold; empty: the host of its address."""
        self._files: list[Path] = []
        self._seen: list[tuple[int, int, int] | None] = []
        self._read()
        self._seen = self._stamps()

    async def start(self) -> None:
        """Look at the files from now on."""
        await super().start()
        if self.server is not None:
            _log.info("encrypted connections are taken: tlsMode=%s, %s", self.choice.mode.name, self._files[0])
        if self._files:
            self.every("look", _LOOK_SECONDS, self.look)

    def look(self) -> None:
        """Read the files again if one has changed. What is wrong with them is logged and makes the health red."""
        if self._seen == (stamps := self._stamps()):
            return
        self._seen, files = stamps, self._files
        try:
            self._read()
        except UsageError as error:
            self.health.set(_TROUBLE, f"the certificates of before stay in use: {error}")
        else:
            if self._files != files:
                self._seen = self._stamps()
            self.health.set(_TROUBLE, "")
            _log.info("certificates were read again")

    def _read(self) -> None:
        choice = self.choice
        if choice.mode is TlsMode.disabled and not choice.dials:
            return
        found, path = read_tls_file(choice)
        server = server_context(found) if choice.mode is not TlsMode.disabled and found.server_cert_path else None
        if server is None and choice.mode is TlsMode.enforcing:
            raise UsageError(
                "setting tlsMode = enforcing needs a certificate",
                where=str(path or ""),
                hint="set tls.server.certPath and tls.server.keyPath in a file, and tlsConfigFile to that file",
            )
        if server is not None and self._alpn:
            server.set_alpn_protocols(self._alpn)
        client = client_context(found) if choice.dials else None
        self.server, self.client, self.server_name = server, client, found.client_server_name
        named = (
            found.server_cert_path,
            found.server_key_path,
            found.server_trust_cert_path,
            found.client_cert_path,
            found.client_key_path,
            found.client_trust_cert_path,
        )
        self._files = [*([path] if path else []), *(Path(each).expanduser() for each in named if each)]

    def _stamps(self) -> list[tuple[int, int, int] | None]:
        return [_stamp(path) for path in self._files]


def _stamp(path: Path) -> tuple[int, int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino


def server_context(found: TlsFile) -> ssl.SSLContext:
    """For connections that are taken. Raises UsageError."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    _restrict(context)
    _load_own(context, "server", found.server_cert_path, found.server_key_path, found.server_key_password)
    if found.server_need_client_auth is not ClientAuth.none:
        _load_trust(context, "server", found.server_trust_cert_path)
    context.verify_mode = _VERIFY[found.server_need_client_auth]
    return context


def client_context(found: TlsFile) -> ssl.SSLContext:
    """For connections that are made. Raises UsageError."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    _restrict(context)
    if not found.client_auth_server:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        _log.warning("servers are not checked: an attacker in between can read all (tls.client.authServer=false)")
    elif found.client_trust_cert_path:
        _load_trust(context, "client", found.client_trust_cert_path)
    else:
        context.load_default_certs()
    if found.client_cert_path:
        _load_own(context, "client", found.client_cert_path, found.client_key_path, found.client_key_password)
    return context


def _restrict(context: ssl.SSLContext) -> None:
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.options |= ssl.OP_NO_COMPRESSION | ssl.OP_NO_RENEGOTIATION


def _load_own(context: ssl.SSLContext, side: str, certificate: str, key: str, password: str) -> None:
    certificate_path, key_path = Path(certificate).expanduser(), Path(key).expanduser()
    for path, name in ((certificate_path, "certPath"), (key_path, "keyPath")):
        _check_readable(path, f"tls.{side}.{name}")
    try:
        # A password is always given: OpenSSL would ask the terminal for it.
        context.load_cert_chain(certificate_path, key_path, password)
    except (OSError, ValueError) as error:
        raise UsageError(
            f"the certificate and its key cannot be used: {reason_of(error)}",
            where=f"{certificate_path}, {key_path}",
            hint=f"let tls.{side}.certPath and tls.{side}.keyPath name a PEM certificate and its own key, and"
            f" tls.{side}.keyPassword hold the password of an encrypted key",
        ) from None
    if key_path.stat().st_mode & 0o004:
        _log.warning("every user of this machine can read the key %s: chmod 600 it", key_path)


def _load_trust(context: ssl.SSLContext, side: str, trusted: str) -> None:
    path = Path(trusted).expanduser()
    _check_readable(path, f"tls.{side}.trustCertPath")
    try:
        context.load_verify_locations(cafile=path)
    except (OSError, ValueError) as error:
        raise UsageError(
            f"the certificates of the authorities cannot be used: {reason_of(error)}",
            where=str(path),
            hint=f"let tls.{side}.trustCertPath name a file of PEM certificates",
        ) from None


def _check_readable(path: Path, name: str) -> None:
    try:
        with path.open("rb"):
            pass
    except OSError as error:
        raise UsageError(
            f"setting {name} names a file that cannot be read: {error.strerror}",
            where=str(path),
            hint=f"let {name} name a PEM file that this user may read",
        ) from None


def reason_of(error: BaseException) -> str:
    """The words of an error of OpenSSL, without the place in its source."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return str(error.verify_message).rstrip(".")
    reason = getattr(error, "reason", None)
    return str(reason).lower().replace("_", " ") if reason else str(error)
