"""TlsStream: one encrypted connection, between the transport that carries its bytes and the link that it serves.

Owns        the handshake, encryption and decryption of one connection, the words when either fails.
Must not know   certificates and modes (certificates.py), frames.

To the transport below it is a protocol, to the link above it is a transport. Nothing is kept here: what the link writes
is given on encrypted at once, so the limits of the transport below are those of the link; what comes is given on at
once, all that one chunk holds in one chunk.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Iterable
from contextlib import suppress
from typing import Any, Final, Protocol, cast

from rocketlake.base.errors import one_line
from rocketlake.net.tls.certificates import reason_of

__all__ = ["StreamOwner", "TlsStream", "name_in"]

_RECORD_BYTES: Final = 16 * 1024
"""The plain text of one record of TLS at most."""
_PIECE_BYTES: Final = 4 * _RECORD_BYTES
"""So much is given on at once: memory of this size is used again, larger buffers would come fresh from the kernel."""


class StreamOwner(Protocol):
    """Who hears how a handshake ended."""

    def opened(self, stream: TlsStream) -> None:
        """It is over, and well; bytes follow."""

    def failed(self, stream: TlsStream, reason: str) -> None:
        """It failed, or bytes that came later were wrong; the connection ends."""


class TlsStream(asyncio.Transport, asyncio.Protocol):
    """One connection."""

    def __init__(
        self, link: asyncio.Protocol, owner: StreamOwner, context: ssl.SSLContext, server_name: str | None = None
    ) -> None:
        """`server_name`: of the server that is called; None: this is the server's side."""
        super().__init__()
        self.link = link
        self.is_open = False
        """True from the end of the handshake on."""
        self.certificate_name = ""
        """Who the peer is by its certificate; empty: it has shown none that was checked."""
        self._owner = owner
        self._raw: asyncio.Transport | None = None
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(
            self._incoming, self._outgoing, server_side=server_name is None, server_hostname=server_name
        )
        self._is_ending = False
        self._error: Exception | None = None

    # -- the protocol of the transport below ---------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The transport below is there: a client begins."""
        self._raw = cast(asyncio.Transport, transport)
        if not self._tls.server_side:
            self._shake()

    def data_received(self, data: bytes) -> None:
        """Encrypted bytes."""
        if self._is_ending:
            return
        self._incoming.write(data)
        if self.is_open or self._shake():
            self._decrypt()

    def eof_received(self) -> bool:
        """The peer sends no more; a frame that is cut short is no frame."""
        return bool(self.link.eof_received()) if self.is_open else False

    def pause_writing(self) -> None:
        """The peer is behind."""
        self.link.pause_writing()

    def resume_writing(self) -> None:
        """The peer has caught up."""
        self.link.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        """The transport below is gone."""
        self._is_ending = True
        if not self.is_open and self._error is None:
            self._owner.failed(self, f"the connection was closed during the TLS handshake{f': {exc}' if exc else ''}")
        if self.is_open or self._tls.server_side:
            self.link.connection_lost(self._error or exc)

    def _shake(self) -> bool:
        """Go on with the handshake; True if it is over."""
        try:
            self._tls.do_handshake()
        except ssl.SSLWantReadError:
            self._flush()
            return False
        except (ssl.SSLError, ValueError) as error:
            self._fail(error)
            return False
        self.is_open = True
        self.certificate_name = name_in(cast("dict[str, Any] | None", self._tls.getpeercert()))
        self._flush()
        self._owner.opened(self)
        return not self._is_ending

    def _decrypt(self) -> None:
        pieces: list[bytes] = []
        problem: ssl.SSLError | None = None
        is_over = False
        read = self._tls.read
        try:
            while piece := read(_RECORD_BYTES):
                pieces.append(piece)
            is_over = True
        except ssl.SSLWantReadError:
            pass
        except ssl.SSLZeroReturnError:
            is_over = True
        except ssl.SSLError as error:
            problem = error
        if self._outgoing.pending:
            self._flush()
        if pieces:
            self.link.data_received(b"".join(pieces) if len(pieces) > 1 else pieces[0])
        if problem is not None:
            self._fail(problem)
        elif is_over and not self._is_ending and not self.link.eof_received():
            self.close()

    def _fail(self, error: Exception) -> None:
        """End it; OpenSSL has written an alert that tells the peer why."""
        self._error = error
        self._is_ending = True
        self._flush()
        self._owner.failed(self, reason_of(error))
        if self._raw is not None:
            self._raw.close()

    # -- the transport of the link above -------------------------------------------------------------------------------

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """See asyncio.WriteTransport. Nothing is written before the handshake is over: nobody has asked anything."""
        self.writelines((data,))

    def writelines(self, list_of_data: Iterable[bytes | bytearray | memoryview]) -> None:
        """Small buffers share records: each record costs more than their copy. Large ones are not copied before."""
        if not self.is_open or self._is_ending:
            return
        small: list[bytes | bytearray | memoryview] = []
        size = 0
        for data in list_of_data:
            size += len(data)
            if len(data) < _RECORD_BYTES:
                small.append(data)
                if size < _RECORD_BYTES:
                    continue
            if small:
                self._encrypt(b"".join(small))
            if len(data) >= _RECORD_BYTES:
                self._encrypt(data)
            small, size = [], 0
        if size:
            self._encrypt(b"".join(small))
        self._flush()

    def _encrypt(self, data: bytes | bytearray | memoryview) -> None:
        if len(data) <= _PIECE_BYTES:
            self._tls.write(data)
        else:
            view = memoryview(data)
            for start in range(0, len(data), _PIECE_BYTES):
                self._tls.write(view[start : start + _PIECE_BYTES])
                self._flush()
        if self._outgoing.pending >= _PIECE_BYTES:
            self._flush()

    def _flush(self) -> None:
        if self._outgoing.pending and self._raw is not None:
            self._raw.write(self._outgoing.read())

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """See asyncio.WriteTransport; of encrypted bytes."""
        self._below.set_write_buffer_limits(high, low)

    def get_write_buffer_size(self) -> int:
        """See asyncio.WriteTransport; of encrypted bytes."""
        return self._below.get_write_buffer_size()

    def pause_reading(self) -> None:
        """See asyncio.ReadTransport. Nothing is read any more once this is closing."""
        if not self.is_closing():
            self._below.pause_reading()

    def resume_reading(self) -> None:
        """See asyncio.ReadTransport."""
        if not self.is_closing():
            self._below.resume_reading()

    def is_closing(self) -> bool:
        """True once closed or lost."""
        return self._is_ending or self._below.is_closing()

    def close(self) -> None:
        """Closes after what is written is sent, with a word to the peer that this is the end."""
        if self._is_ending:
            return
        self._is_ending = True
        if self.is_open:
            with suppress(ssl.SSLError):
                self._tls.unwrap()
            self._flush()
        self._below.close()

    def abort(self) -> None:
        """Closes at once."""
        self._is_ending = True
        self._below.abort()

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """See asyncio.BaseTransport."""
        return self._below.get_extra_info(name, default)

    @property
    def _below(self) -> asyncio.Transport:
        assert self._raw is not None, "not connected"
        return self._raw


def name_in(certificate: dict[str, Any] | None) -> str:
    """The common name of the subject, else the first other name; "" without a certificate."""
    if not certificate:
        return ""
    for part in certificate.get("subject", ()):
        for key, value in part:
            if key == "commonName":
                return one_line(value)
    for _, value in certificate.get("subjectAltName", ()):
        return one_line(str(value))
    return ""
