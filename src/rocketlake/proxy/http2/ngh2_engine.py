"""Ngh2Engine: the engine by libnghttp2.

Owns        the calls of ngh2, its settings, its errors.
Must not know   sockets, gRPC.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Final

import ngh2

from rocketlake.proxy.http2.engine import EngineFailed, Headers, Streams
from rocketlake.proxy.http2.limits import GrpcLimits

__all__ = ["Ngh2Engine"]

_DEFAULT_WINDOW_BYTES: Final = 65_535
_NOT_GRPC: Final = "the peer speaks no gRPC; a client of RocketMQ's remoting protocol asks a name server (port 9876)"
_GONE: Final = (ngh2.StreamProtocolError, ngh2.ConnectionClosingError, ngh2.ConnectionStateError)
"""The stream, or all of them, ended meanwhile."""
_TAKEN: Final = (*_GONE, ValueError)


class Ngh2Engine:
    """See Engine."""

    def __init__(self, streams: Streams, limits: GrpcLimits) -> None:
        self._streams = streams
        self._h2 = ngh2.Connection(
            ngh2.Role.SERVER,
            ngh2.Configuration(
                auto_window_update=False,
                max_inbound_header_list_size=limits.header_list_bytes,
                max_inbound_header_count=limits.headers,
            ),
        )
        self._h2.initiate_connection(
            {
                ngh2.Setting.MAX_CONCURRENT_STREAMS: limits.streams,
                ngh2.Setting.INITIAL_WINDOW_SIZE: limits.stream_window_bytes,
                ngh2.Setting.MAX_HEADER_LIST_SIZE: limits.header_list_bytes,
            }
        )
        if limits.link_window_bytes > _DEFAULT_WINDOW_BYTES:
            self._h2.set_local_window_size(limits.link_window_bytes)

    def receive(self, data: bytes) -> None:
        """See Engine."""
        streams = self._streams
        try:
            self._h2.receive_data(data)
            events = self._h2.events()
        except ngh2.NGH2Error as error:
            if "client magic" in str(error):
                raise EngineFailed(_NOT_GRPC) from error
            raise EngineFailed(f"its HTTP/2 is refused: {error}") from error
        for event in events:
            if isinstance(event, ngh2.DataReceived):
                streams.received(event.stream_id, event.data, event.end_stream)
            elif isinstance(event, ngh2.RequestReceived):
                streams.opened(event.stream_id, event.headers, event.end_stream)
            elif isinstance(event, ngh2.StreamClosed | ngh2.StreamReset):
                streams.lost(event.stream_id)
            elif isinstance(event, ngh2.TrailersReceived):  # gRPC gives them no meaning in a request
                streams.received(event.stream_id, b"", True)
            elif isinstance(event, ngh2.ConnectionClosed) and event.error_code:
                raise EngineFailed(f"its HTTP/2 is refused with code {event.error_code}")

    def respond(self, stream: int, headers: Headers, *, ended: bool = False) -> None:
        """See Engine."""
        with suppress(*_GONE):
            self._h2.send_response(stream, headers, end_stream=ended)

    def answer(self, stream: int, headers: Headers, data: bytes, trailers: Headers) -> None:
        """See Engine."""
        try:
            self._h2.send_response(stream, headers)
            self._h2.send_data(stream, data)
            self._h2.send_trailers(stream, trailers)
        except _GONE:
            return

    def write(self, stream: int, data: bytes) -> None:
        """See Engine."""
        with suppress(*_GONE):
            self._h2.send_data(stream, data)

    def trailers(self, stream: int, headers: Headers) -> None:
        """See Engine."""
        with suppress(*_GONE):
            self._h2.send_trailers(stream, headers)

    def reset(self, stream: int, code: int) -> None:
        """See Engine."""
        with suppress(*_GONE):
            self._h2.reset_stream(stream, code)

    def taken(self, stream: int, size: int) -> None:
        """See Engine."""
        try:
            self._h2.acknowledge_received_data(size, stream)
        except _TAKEN:
            return  # nothing is counted any more for a stream that is closed

    def go_away(self, *, final: bool) -> None:
        """See Engine."""
        with suppress(*_GONE):
            if final:
                self._h2.send_goaway()
            else:
                self._h2.send_shutdown_notice()

    def ping(self) -> None:
        """See Engine."""
        with suppress(*_GONE):
            self._h2.ping()

    def unsent(self) -> int:
        """See Engine."""
        with suppress(*_GONE):
            return self._h2.queued_body_size()
        return 0

    def out(self, size: int) -> bytes:
        """See Engine."""
        try:
            return self._h2.data_to_send(size)
        except ngh2.NGH2Error:
            return b""

    @property
    def is_over(self) -> bool:
        """See Engine."""
        return not (self._h2.want_read or self._h2.want_write)
