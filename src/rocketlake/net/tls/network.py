"""SecureNetwork: any network, with connections that are encrypted as the certificates and the mode say.

Owns        the first byte of an accepted connection: plain or TLS, and what the mode allows; the errors of handshakes.
Must not know   how connections are made (net/network.py), how bytes are encrypted (stream.py), which files are read
            (certificates.py).
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Callable
from functools import partial
from typing import Final, Protocol, cast

from rocketlake.base.errors import LinkError
from rocketlake.net.network import Listener, Network, Open, open_tcp
from rocketlake.net.tls.certificates import Certificates, reason_of
from rocketlake.net.tls.settings import TlsMode
from rocketlake.net.tls.stream import TlsStream

__all__ = ["HandshakeFailed", "SecureNetwork", "ServedLink", "connect_encrypted"]

_HELLO: Final = 0x16
"""The first byte of a TLS handshake. As the first of a frame it would announce 352 MiB."""


class HandshakeFailed(LinkError):
    """A connection was there, and could not be encrypted."""

    def __init__(self, address: str, reason: str) -> None:
        super().__init__(f"no encrypted connection to {address}: {reason}")
        self.reason = reason


class ServedLink(Protocol):
    """What a link may learn of its connection beyond asyncio's protocol. Only the link of a listener is told."""

    def secured(self, transport: asyncio.Transport) -> None:
        """The peer has begun a handshake: use this transport from now on."""

    def known_as(self, certificate_name: str) -> None:
        """The handshake is over; the peer has shown a certificate of this name, or none: ""."""


class SecureNetwork:
    """Implements net.network.Network on top of another one."""

    def __init__(self, below: Network, certificates: Certificates) -> None:
        self._below = below
        self._certificates = certificates

    async def listen(self, make_link: Callable[[], asyncio.Protocol], host: str, port: int) -> Listener:
        """See Network.listen. The links are ServedLinks."""
        return await self._below.listen(lambda: _Doorstep(make_link(), self._certificates), host, port)

    async def connect(self, make_link: Callable[[], asyncio.Protocol], host: str, port: int) -> asyncio.Protocol:
        """See Network.connect; the link is connected when the handshake is over."""
        certificates = self._certificates
        certificates.look()
        if certificates.client is None:
            return await self._below.connect(make_link, host, port)
        try:
            return await connect_encrypted(
                self._below, make_link, host, port, certificates.client, certificates.server_name or host
            )
        except HandshakeFailed as error:
            error.hint = _call_cure(error.reason)
            raise

    def way(self, host: str, port: int, seconds: float) -> Open:
        """What opens a connection over TCP within so many seconds. Call this on the loop, and its result elsewhere."""
        certificates = self._certificates
        certificates.look()
        if certificates.client is None:
            return partial(open_tcp, host, port, seconds)
        return partial(_open_encrypted, certificates.client, certificates.server_name or host, host, port, seconds)


def _open_encrypted(context: ssl.SSLContext, server_name: str, host: str, port: int, seconds: float) -> socket.socket:
    connection = open_tcp(host, port, seconds)
    try:
        return context.wrap_socket(connection, server_hostname=server_name)
    except (OSError, ValueError) as error:  # ValueError: no name that a certificate could hold
        connection.close()
        failed = HandshakeFailed(f"{host}:{port}", reason_of(error))
        failed.hint = _call_cure(failed.reason)
        raise failed from None


async def connect_encrypted(
    below: Network,
    make_link: Callable[[], asyncio.Protocol],
    host: str,
    port: int,
    context: ssl.SSLContext,
    server_name: str,
) -> asyncio.Protocol:
    """Open one connection, and encrypt it; the link is connected then. Raises what `below` does, HandshakeFailed."""
    call = _Call(f"{host}:{port}")
    try:
        stream = await below.connect(lambda: TlsStream(make_link(), call, context, server_name), host, port)
    except ValueError as error:  # no name that a certificate could hold
        raise HandshakeFailed(f"{host}:{port}", str(error)) from None
    assert isinstance(stream, TlsStream)
    try:
        await call.ended
    except BaseException:
        stream.abort()
        raise
    return stream.link


class _Doorstep(asyncio.Protocol):
    """An accepted connection until its first byte."""

    def __init__(self, link: asyncio.Protocol, certificates: Certificates) -> None:
        self._link = link
        self._certificates = certificates
        self._transport: asyncio.Transport
        self._is_refused = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The link has its place from now on: a peer that says nothing is counted, and closed in time."""
        self._transport = cast(asyncio.Transport, transport)
        self._link.connection_made(transport)

    def data_received(self, data: bytes) -> None:
        """The first bytes."""
        if self._is_refused:
            return
        mode = self._certificates.choice.mode
        if data[0] == _HELLO:
            self._secure(data, mode)
        elif mode is TlsMode.enforcing:
            self._refuse(
                "plain",
                "it does not encrypt, and this server takes encrypted connections only (tlsMode=enforcing): set"
                " useTLS=true for clients and brokers, -Dtls.enable=true for those in Java, or tlsMode=permissive here",
            )
        else:
            self._transport.set_protocol(self._link)
            self._link.data_received(data)

    def _secure(self, data: bytes, mode: TlsMode) -> None:
        context = self._certificates.server
        if mode is TlsMode.disabled:
            self._refuse(
                "tls",
                "it encrypts, and this server takes plain connections only (tlsMode=disabled): set useTLS=false for"
                " clients and brokers, or tlsMode=permissive here",
            )
        elif context is None:
            self._refuse(
                "tls",
                "it encrypts, and this server has no certificate: set tls.server.certPath and tls.server.keyPath in a"
                " file, and tlsConfigFile to that file",
            )
        else:
            stream = TlsStream(self._link, _Served(self._certificates), context)
            stream.connection_made(self._transport)
            self._transport.set_protocol(stream)
            cast(ServedLink, self._link).secured(stream)
            stream.data_received(data)

    def _refuse(self, kind: str, why: str) -> None:
        self._is_refused = True
        peer = self._transport.get_extra_info("peername") or ("", 0)
        self._certificates.warnings.warn(f"{peer[0]} {kind}", "link %s:%s closed: %s", peer[0], peer[1], why)
        self._transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        """It ends without a word, or was refused."""
        self._link.connection_lost(exc)

    def pause_writing(self) -> None:
        """See asyncio.Protocol."""
        self._link.pause_writing()

    def resume_writing(self) -> None:
        """See asyncio.Protocol."""
        self._link.resume_writing()


class _Served:
    """The server's side of a handshake."""

    def __init__(self, certificates: Certificates) -> None:
        self._warnings = certificates.warnings

    def opened(self, stream: TlsStream) -> None:
        """See StreamOwner."""
        cast(ServedLink, stream.link).known_as(stream.certificate_name)

    def failed(self, stream: TlsStream, reason: str) -> None:
        """See StreamOwner."""
        peer = stream.get_extra_info("peername") or ("", 0)
        self._warnings.warn(f"{peer[0]} handshake", "link %s:%s closed: %s", peer[0], peer[1], _served_words(reason))


class _Call:
    """The client's side of a handshake."""

    def __init__(self, address: str) -> None:
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._address = address

    def opened(self, stream: TlsStream) -> None:
        """See StreamOwner."""
        stream.link.connection_made(stream)
        if not self.ended.done():
            self.ended.set_result(None)

    def failed(self, stream: TlsStream, reason: str) -> None:
        """See StreamOwner."""
        if not self.ended.done():
            self.ended.set_exception(HandshakeFailed(self._address, reason))


def _served_words(reason: str) -> str:
    """What is wrong with a peer, in this server's words."""
    if "unknown ca" in reason or "bad certificate" in reason:
        return f"it does not trust this server's certificate: TLS: {reason} (tls.client.trustCertPath of the client)"
    if "did not return a certificate" in reason:
        return "it shows no certificate (tls.server.need.client.auth=require): set tls.client.certPath of the client"
    return f"TLS: {reason}"


def _call_cure(reason: str) -> str:
    if "closed during" in reason:
        return "see the log of that server: its tlsMode may be disabled, or set useTLS=false here"
    if "mismatch" in reason or "not valid for" in reason:
        return "set tls.client.serverName to a name that the server's certificate holds, or use it in the address"
    if "wrong version number" in reason:
        return "set useTLS=false: that server does not encrypt"
    if "expired" in reason or "not yet valid" in reason:
        return "give the server a certificate that is valid now; look at the clocks of both machines"
    return "let tls.client.trustCertPath name the authority of the server's certificate"
