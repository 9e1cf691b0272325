"""Metrics that a running broker sends to a receiver of OpenTelemetry's protocol, or writes to its log."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest
import trustme
from opentelemetry.proto.collector.metrics.v1 import metrics_service_pb2_grpc as service
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsPartialSuccess,
    ExportMetricsServiceRequest,
    ExportMetricsServiceResponse,
)
from opentelemetry.proto.metrics.v1.metrics_pb2 import Metric

from rocketlake import Message, Producer
from rocketlake.base.errors import UsageError
from rocketlake.standalone import Standalone

OWN = {"cluster": "DefaultCluster", "node_type": "broker", "node_id": "broker-a"}


class Receiver(service.MetricsServiceServicer):
    """Keeps what it is sent."""

    def __init__(self) -> None:
        self.requests: list[ExportMetricsServiceRequest] = []
        self.headers: list[dict[str, str]] = []
        self.refusal: grpc.StatusCode | None = None
        self.rejected = 0
        self.asked = 0
        self.goes_on = threading.Event()
        self.goes_on.set()

    def Export(self, request: ExportMetricsServiceRequest, context: Any) -> ExportMetricsServiceResponse:
        self.asked += 1
        self.goes_on.wait(120)
        if not context.is_active():
            return ExportMetricsServiceResponse()
        if self.refusal is not None:
            context.abort(self.refusal, "not you")
        self.headers.append(dict(context.invocation_metadata()))
        self.requests.append(request)
        return ExportMetricsServiceResponse(
            partial_success=ExportMetricsPartialSuccess(rejected_data_points=self.rejected, error_message="too old")
        )

    @property
    def metrics(self) -> dict[str, Metric]:
        """By name: the last of each."""
        return {
            metric.name: metric
            for request in self.requests
            for resource in request.resource_metrics
            for scope in resource.scope_metrics
            for metric in scope.metrics
        }

    def number(self, name: str, **labels: str) -> float | None:
        """Of the one point that has these labels; None before it came."""
        metric = self.metrics.get(name)
        if metric is None:
            return None
        points = metric.sum.data_points or metric.gauge.data_points
        found = [
            point
            for point in points
            if labels.items() <= {each.key: each.value.string_value for each in point.attributes}.items()
        ]
        return float(getattr(found[0], found[0].WhichOneof("value"))) if len(found) == 1 else None


@contextmanager
def serving(receiver: Receiver, port: int = 0, credentials: grpc.ServerCredentials | None = None) -> Iterator[int]:
    server = grpc.server(ThreadPoolExecutor(2), options=[("grpc.so_reuseport", 0)])
    service.add_MetricsServiceServicer_to_server(receiver, server)
    at = f"127.0.0.1:{port}"
    bound = server.add_insecure_port(at) if credentials is None else server.add_secure_port(at, credentials)
    server.start()
    try:
        yield bound
    finally:
        server.stop(None).wait()


def settings(port: int, **more: str) -> dict[str, str]:
    return {
        "metricsExporterType": "OTLP_GRPC",
        "metricsGrpcExporterTarget": f"http://127.0.0.1:{port}",
        "metricGrpcExporterIntervalInMills": "100",
        **more,
    }


async def until(reached: Callable[[], object]) -> None:
    async with asyncio.timeout(60):
        while not reached():  # noqa: ASYNC110  the receiver has threads
            await asyncio.sleep(0.01)


async def send(cluster: Standalone, count: int) -> None:
    async with Producer("senders", namesrv=cluster.namesrv_address) as producer:
        for _ in range(count):
            await producer.send(Message("orders", b"1"))


async def test_a_receiver_gets_apaches_names_bare_with_units_and_labels_beside(tmp_path: Path) -> None:
    receiver = Receiver()
    more = {"metricsGrpcExporterHeader": "Authorization:Bearer a:b", "metricsLabel": "team:shop"}
    with serving(receiver) as port:
        async with Standalone(tmp_path, settings=settings(port, **more)) as cluster:
            assert cluster.broker.monitor.address == ""
            await send(cluster, 7)
            labels = {**OWN, "team": "shop", "topic": "orders", "message_type": "normal", "is_system": "false"}
            await until(lambda: receiver.number("rocketmq_messages_in_total", **labels) == 7)
            started_ns = receiver.metrics["rocketmq_messages_in_total"].sum.data_points[0].start_time_unix_nano
            assert started_ns <= cluster.broker.ground.clock.now_ms() * 1_000_000
            await until(lambda: "rocketlake_metrics_scrape" in receiver.metrics)  # the last of an export
    metrics = receiver.metrics
    counted = metrics["rocketmq_messages_in_total"].sum
    assert counted.is_monotonic and counted.aggregation_temporality == 2
    assert receiver.number("rocketmq_broker_permission") == 6
    assert metrics["rocketmq_broker_permission"].WhichOneof("data") == "gauge"
    behind = metrics["rocketmq_storage_message_reserve_time"]
    assert behind.unit == "milliseconds" and behind.description
    assert not {name for name in metrics if name.endswith("_milliseconds")}
    (put,) = metrics["rocketlake_put"].histogram.data_points
    assert (put.count, sum(put.bucket_counts), len(put.bucket_counts)) == (7, 7, len(put.explicit_bounds) + 1)
    assert receiver.headers[0]["authorization"] == "Bearer a:b"
    (resource,) = receiver.requests[0].resource_metrics
    named = {each.key: each.value.string_value for each in resource.resource.attributes}
    assert (named["service.name"], named["service.instance.id"]) == ("rocketlake", "broker-a")


async def test_a_receiver_that_is_away_costs_nothing_but_a_trouble_until_it_is_back(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    receiver = Receiver()
    with serving(receiver) as port:
        pass
    async with Standalone(tmp_path, settings=settings(port)) as cluster:
        await until(lambda: "metrics/export" in cluster.broker.health.troubles)
        assert "UNAVAILABLE" in cluster.broker.health.troubles["metrics/export"].reason
        assert any(
            "took no metrics: UNAVAILABLE" in text and "Cure: start a receiver" in text for text in caplog.messages
        )
        await send(cluster, 3)
        with serving(receiver, port):
            await until(lambda: receiver.number("rocketmq_messages_in_total", topic="orders") == 3)
            await until(lambda: cluster.broker.health.is_green)


async def test_a_receiver_that_asks_for_a_header_is_told_of(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    receiver = Receiver()
    receiver.refusal = grpc.StatusCode.UNAUTHENTICATED
    with serving(receiver) as port:
        async with Standalone(tmp_path, settings=settings(port)) as cluster:
            await until(lambda: "metrics/export" in cluster.broker.health.troubles)
            assert any("Cure: give metricsGrpcExporterHeader" in text for text in caplog.messages)
            receiver.refusal = None
            await until(lambda: cluster.broker.health.is_green and receiver.requests)


async def test_a_receiver_that_hangs_holds_up_no_stop(tmp_path: Path) -> None:
    receiver = Receiver()
    receiver.goes_on.clear()
    with serving(receiver) as port:
        try:
            async with asyncio.timeout(60):
                async with Standalone(tmp_path, settings=settings(port, metricGrpcExporterTimeOutInMills="600000")):
                    await until(lambda: receiver.asked)
        finally:
            receiver.goes_on.set()
    assert receiver.requests == []


async def test_figures_that_the_receiver_rejects_are_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    receiver = Receiver()
    receiver.rejected = 4
    with serving(receiver) as port:
        async with Standalone(tmp_path, settings=settings(port)):
            await until(
                lambda: any("4 figures were not taken" in text and "too old" in text for text in caplog.messages)
            )
            assert receiver.requests


async def test_more_than_a_thousand_points_come_in_several_requests(tmp_path: Path) -> None:
    receiver = Receiver()
    with serving(receiver) as port:
        async with Standalone(tmp_path, settings=settings(port)) as cluster:
            for number in range(1100):
                cluster.broker.ground.stats.count_put(f"t{number}", 1, 10)
            await until(lambda: receiver.number("rocketmq_messages_in_total", topic="t1099") == 1)
    points = [len(metric.sum.data_points) for metric in _all(receiver) if metric.name == "rocketmq_messages_in_total"]
    assert max(points) <= 1000 < sum(points)


def _all(receiver: Receiver) -> list[Metric]:
    return [
        metric
        for request in receiver.requests
        for resource in request.resource_metrics
        for scope in resource.scope_metrics
        for metric in scope.metrics
    ]


async def test_a_target_without_a_scheme_is_encrypted_as_with_apache(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The authority of the test is not known to gRPC, so the link fails at its certificate, and says so."""
    certificate = trustme.CA().issue_cert("127.0.0.1")
    pair = (certificate.private_key_pem.bytes(), certificate.cert_chain_pems[0].bytes())
    receiver = Receiver()
    with serving(receiver, credentials=grpc.ssl_server_credentials([pair])) as port:
        target = {"metricsGrpcExporterTarget": f"127.0.0.1:{port}"}
        async with Standalone(tmp_path, settings=settings(port, **target)) as cluster:
            await until(lambda: "metrics/export" in cluster.broker.health.troubles)
            reason = cluster.broker.health.troubles["metrics/export"].reason
    assert "UNAVAILABLE" in reason and "certificate" in reason.lower()
    assert receiver.requests == []


@pytest.mark.parametrize("target", ["", "127.0.0.1", "ftp://127.0.0.1:4317", "http://127.0.0.1:x", "http://h:1/v1"])
async def test_a_target_that_is_none_is_refused_at_the_start(tmp_path: Path, target: str) -> None:
    with pytest.raises(UsageError, match="metricsGrpcExporterTarget") as caught:
        await Standalone(tmp_path, settings=settings(1, metricsGrpcExporterTarget=target)).start()
    assert "http://host:port" in caught.value.hint


async def test_metrics_are_written_to_the_log(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "rocketlake.net.http.exports")
    told = {"metricsExporterType": "LOG", "metricLoggingExporterIntervalInMills": "100"}
    async with Standalone(tmp_path, settings=told) as cluster:
        await send(cluster, 2)
        line = (
            'rocketmq_messages_in_total{cluster="DefaultCluster",node_type="broker",node_id="broker-a",topic="orders",'
        )
        await until(lambda: any(text.startswith(line) and text.endswith(" 2") for text in caplog.messages))
        assert not any(text.startswith("#") for text in caplog.messages)
