"""Families of metrics as messages of OpenTelemetry's protocol.

Owns        what a family and its samples become, how many points go into one request.
Must not know   what is measured, how requests are sent (otlp.py).

A family has its bare name, as in Apache's export: the unit stands beside it, in words. It imports opentelemetry-proto.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterable, Iterable, Mapping
from itertools import chain
from typing import Final, NamedTuple, TypeAlias

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
    ExportMetricsServiceResponse,
)
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.metrics.v1.metrics_pb2 import (
    AGGREGATION_TEMPORALITY_CUMULATIVE,
    Metric,
    NumberDataPoint,
    ScopeMetrics,
)

from rocketlake.base.figures.histogram import Histogram
from rocketlake.net.http.exposition import Family, Pace, SampleLimit, labels_of
from rocketlake.protocol.versions import OUR_VERSION, version_name

__all__ = ["Answer", "OtlpMessages", "Request"]

_POINTS_MAX: Final = 1_000
"""Of one request; receivers take four megabytes."""
_POINTS_AT_ONCE: Final = 20
_NANOS: Final = 1_000_000

Request: TypeAlias = ExportMetricsServiceRequest


class Answer(NamedTuple):
    """What a receiver says to a request."""

    rejected: int
    """Points that it did not take."""
    why: str


class OtlpMessages:
    """Of one server."""

    def __init__(self, labels: Mapping[str, str], started_ms: int) -> None:
        """`labels`: of every sample. `started_ms`: since then the server has counted, epoch ms."""
        self._common = _attributes(labels.items())
        self._resource = _attributes(
            {
                "service.name": "rocketlake",
                "service.version": version_name(OUR_VERSION),
                "service.instance.id": labels.get("node_id", ""),
            }.items()
        )
        self._started_nanos = started_ms * _NANOS

    async def requests(
        self, families: AsyncIterable[Family], pace: Pace, limit: SampleLimit
    ) -> AsyncGenerator[Request, None]:
        """All families, in requests of limited size."""
        known: dict[str, bytes] = {}
        request, metrics = self._begin()
        points = 0
        now = pace.now_ms * _NANOS
        async for family in families:
            metric: Metric | None = None
            for own, value in limit.of(family):
                if metric is None:
                    metric = metrics.metrics.add(name=family.name, description=family.help, unit=family.unit)
                self._add(metric, family.kind, own, value, now, known)
                points += 1
                if points == _POINTS_MAX:
                    yield request
                    request, metrics = self._begin()
                    points, metric = 0, None
                if points % _POINTS_AT_ONCE == 0:
                    await pace.rest()
        if points:
            yield request

    @staticmethod
    def to_bytes(request: Request) -> bytes:
        """What goes over the wire."""
        data: bytes = request.SerializeToString()
        return data

    @staticmethod
    def read_answer(answer: bytes) -> Answer:
        """What came back."""
        partial = ExportMetricsServiceResponse.FromString(answer).partial_success
        return Answer(partial.rejected_data_points, partial.error_message)

    def _begin(self) -> tuple[Request, ScopeMetrics]:
        request = ExportMetricsServiceRequest()
        resource = request.resource_metrics.add()
        resource.resource.attributes.extend(self._resource)
        metrics = resource.scope_metrics.add()
        metrics.scope.name = "rocketlake"
        return request, metrics

    def _add(
        self, metric: Metric, kind: str, own: str, value: float | Histogram, now: int, known: dict[str, bytes]
    ) -> None:
        if isinstance(value, Histogram):
            metric.histogram.aggregation_temporality = AGGREGATION_TEMPORALITY_CUMULATIVE
            metric.histogram.data_points.add(
                attributes=chain(self._common, _attributes(labels_of(own))),
                start_time_unix_nano=self._started_nanos,
                time_unix_nano=now,
                count=sum(value.counts),
                sum=value.sum,
                bucket_counts=value.counts,
                explicit_bounds=value.bounds,
            )
            return
        if kind == "counter":
            metric.sum.is_monotonic = True
            metric.sum.aggregation_temporality = AGGREGATION_TEMPORALITY_CUMULATIVE
            point = metric.sum.data_points.add(start_time_unix_nano=self._started_nanos, time_unix_nano=now)
        else:
            point = metric.gauge.data_points.add(time_unix_nano=now)
        attributes = known.get(own)
        if attributes is None:  # many families have samples with the same labels
            of_point = NumberDataPoint(attributes=chain(self._common, _attributes(labels_of(own))))
            attributes = known[own] = of_point.SerializeToString()
        point.MergeFromString(attributes)
        if isinstance(value, float):
            point.as_double = value
        else:
            point.as_int = int(value)


def _attributes(labels: Iterable[tuple[str, str]]) -> list[KeyValue]:
    return [KeyValue(key=name, value=AnyValue(string_value=value)) for name, value in labels]
