"""A receiver of OpenTelemetry's protocol, by gRPC: `metricsExporterType=OTLP_GRPC`.

Owns        the channel to it, what its refusals mean.
Must not know   when an export is due (exports.py), the messages (otlp_messages.py).

It needs grpcio and opentelemetry-proto, which are imported only by servers that have a receiver. A worker thread waits
for its answers.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import AsyncIterable, Mapping
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from rocketlake.base.errors import LinkError, UsageError
from rocketlake.base.logs import RareWarnings, get_logger
from rocketlake.base.worker import ThreadWorker, run_on
from rocketlake.net.http.exposition import Family, Pace, SampleLimit
from rocketlake.net.http.settings import MetricsChoice, parse_headers

if TYPE_CHECKING:
    from rocketlake.net.http.otlp_messages import Request

__all__ = ["OtlpReceiver"]

_log = get_logger(__name__)

_EXPORT: Final = "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export"
_OPTIONS: Final = [("grpc.initial_reconnect_backoff_ms", 100), ("grpc.max_reconnect_backoff_ms", 5_000)]
"""How soon a channel tries to connect again; its own longest pause is two minutes."""
_CURE: Final = (
    "start a receiver there (an OpenTelemetry Collector has port 4317), or correct metricsGrpcExporterTarget; one that"
    " does not encrypt is named http://host:port"
)


class OtlpReceiver:
    """See exports.Taker."""

    def __init__(self, choice: MetricsChoice, labels: Mapping[str, str], started_ms: int) -> None:
        """`labels`: of every sample. UsageError: bad settings, or a package is missing."""
        try:
            import grpc  # type: ignore[import-untyped]

            from rocketlake.net.http.otlp_messages import OtlpMessages
        except ModuleNotFoundError as error:
            what = f"metricsExporterType=OTLP_GRPC needs the package {error.name}, which is not installed"
            raise UsageError(what, hint="pip install 'rocketlake[otlp]'") from error
        self._grpc = grpc
        self._messages = OtlpMessages(labels, started_ms)
        self._target, self._is_encrypted = _parse_target(choice.otlp_target)
        self._headers = tuple(parse_headers(choice.otlp_headers).items())
        self._timeout = choice.otlp_timeout_ms / 1000
        self._worker = ThreadWorker("otlp")
        self._warnings = RareWarnings(_log)
        self._channel: Any = None

    async def take(self, families: AsyncIterable[Family], pace: Pace, limit: SampleLimit) -> None:
        """See exports.Taker."""
        async with contextlib.aclosing(self._messages.requests(families, pace, limit)) as requests:
            async for request in requests:
                await run_on(self._worker, functools.partial(self._send, request))

    async def close(self) -> None:
        """A call on its way ends at once."""
        if self._channel is not None:
            self._channel.close()
        await self._worker.close()

    def _send(self, request: Request) -> None:
        grpc = self._grpc
        if self._channel is None:
            self._channel = (
                grpc.secure_channel(self._target, grpc.ssl_channel_credentials(), options=_OPTIONS)
                if self._is_encrypted
                else grpc.insecure_channel(self._target, options=_OPTIONS)
            )
        call = self._channel.unary_unary(
            _EXPORT, request_serializer=self._messages.to_bytes, response_deserializer=self._messages.read_answer
        )
        try:
            answer = call(request, timeout=self._timeout, metadata=self._headers, compression=grpc.Compression.Gzip)
        except grpc.RpcError as error:
            raise self._link_error(error) from None
        if answer.rejected:
            text = "%d figures were not taken by the receiver %s: %s"
            self._warnings.warn("rejected", text, answer.rejected, self._target, answer.why[:200])

    def _link_error(self, error: Any) -> LinkError:
        code = error.code().name
        hint = _CURE
        if code in ("UNAUTHENTICATED", "PERMISSION_DENIED"):
            hint = "give metricsGrpcExporterHeader what the receiver asks for, such as authorization:Bearer ..."
        elif code == "DEADLINE_EXCEEDED":
            hint = "look at the load of the receiver, or raise metricGrpcExporterTimeOutInMills"
        details = str(error.details() or "")[:200]
        return LinkError(f"the OTLP receiver took no metrics: {code}: {details}", where=self._target, hint=hint)


def _parse_target(text: str) -> tuple[str, bool]:
    """`host:port`, and True if the receiver encrypts. UsageError."""
    url = urlsplit(text if "://" in text else f"https://{text}")
    try:
        is_good = url.scheme in ("http", "https") and url.hostname and url.port and url.path in ("", "/")
    except ValueError:  # the port is no number
        is_good = False
    if not is_good:
        raise UsageError(
            f"setting metricsGrpcExporterTarget = {text[:200]!r} names no receiver for metricsExporterType=OTLP_GRPC",
            hint="write host:port for one that encrypts, http://host:port for one that does not",
        )
    return url.netloc, url.scheme == "https"
