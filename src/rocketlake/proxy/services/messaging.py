"""Messaging: the methods of MessagingService, bound to the services.

Owns        which service serves which method; bytes to requests and back; every refusal as the status of an answer.
Must not know   what the services do.

RocketMQ's own refusals stand in the field `status` of an answer, and the call itself ends well.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any, Final, TypeAlias

from google.protobuf.message import DecodeError

from rocketlake.base.errors import RocketLakeError
from rocketlake.proxy.convert.refusal import status_of
from rocketlake.proxy.http2.call import Call
from rocketlake.proxy.http2.framing import CallFailed, GrpcStatus
from rocketlake.proxy.server import GrpcServer
from rocketlake.proxy.services.caller import Caller, Callers
from rocketlake.proxy.v2 import messages as v2

__all__ = ["Serve", "ServeStream", "bind", "read"]

Serve: TypeAlias = Callable[[Caller, Any], Awaitable[Any]]
"""(caller, request) -> response; a RocketLakeError that it raises becomes the response's status."""

ServeStream: TypeAlias = Callable[[Caller, Any], Awaitable[None]]
"""(caller, request): writes responses to caller.call and ends it; what it raises becomes a last response."""

_SERVICE: Final = "/apache.rocketmq.v2.MessagingService/"


def bind(server: GrpcServer, callers: Callers, serves: Mapping[str, Serve], streams: Mapping[str, ServeStream]) -> None:
    """Serve these methods, by their names. `streams`: their answer is a stream."""
    for name, serve in serves.items():
        server.add_waiting(_SERVICE + name, partial(_unary, callers, v2.METHODS[_SERVICE + name], serve))
    for name, stream in streams.items():
        server.add_waiting(_SERVICE + name, partial(_stream, callers, v2.METHODS[_SERVICE + name], stream))


def read(kind: Any, message: bytes) -> Any:
    """The message. CallFailed if it is none of this kind."""
    try:
        return kind.FromString(message)
    except DecodeError:
        raise CallFailed(GrpcStatus.INVALID_ARGUMENT, f"a message is no {kind.DESCRIPTOR.name}") from None


async def _unary(callers: Callers, method: v2.Method, serve: Serve, call: Call, message: bytes) -> None:
    request = read(method.request, message)
    try:
        caller = callers.of(call)
        if caller.remaining_ms <= 0:
            raise CallFailed(GrpcStatus.DEADLINE_EXCEEDED, "the deadline of the call has passed")
        response = await serve(caller, request)
    except CallFailed:  # an outcome of gRPC, no refusal of RocketMQ's
        raise
    except RocketLakeError as error:
        response = method.response(status=_refused(call, error))
    call.answer(response.SerializeToString())


async def _stream(callers: Callers, method: v2.Method, serve: ServeStream, call: Call, message: bytes) -> None:
    request = read(method.request, message)
    try:
        await serve(callers.of(call), request)
    except RocketLakeError as error:
        call.answer(method.response(status=_refused(call, error)).SerializeToString())


def _refused(call: Call, error: RocketLakeError) -> Any:
    """The status of an answer that says so; the call is counted by its code."""
    status = status_of(error)
    call.refusal = v2.Code(status.code).name
    return status
