"""What the settings of a server say of its metrics.

Owns        the exporters there are, the values that a Monitor needs.
Must not know   the settings of a server; they are dataclass fields beside its other ones.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final

from rocketlake.base.errors import UsageError

__all__ = [
    "LOG_INTERVAL_MS",
    "LOOPBACK",
    "METRICS_PORT",
    "METRICS_SETTINGS",
    "OTLP_INTERVAL_MS",
    "OTLP_TIMEOUT_MS",
    "SAMPLES_MAX",
    "MetricsChoice",
    "MetricsExporter",
    "parse_headers",
    "parse_labels",
]

METRICS_PORT: Final = 5557
LOOPBACK: Final = "127.0.0.1"
SAMPLES_MAX: Final = 10_000
OTLP_TIMEOUT_MS: Final = 3_000
OTLP_INTERVAL_MS: Final = 60_000
LOG_INTERVAL_MS: Final = 10_000
_HEADER: Final = re.compile(r"[a-z0-9_.-]+")
METRICS_SETTINGS: Final[tuple[str, ...]] = (
    "metricsExporterType",
    "metricsPromExporterHost",
    "metricsPromExporterPort",
    "metricsGrpcExporterTarget",
    "metricsGrpcExporterHeader",
    "metricGrpcExporterTimeOutInMills",
    "metricGrpcExporterIntervalInMills",
    "metricLoggingExporterIntervalInMills",
    "metricsLabel",
    "metricsOtelCardinalityLimit",
)
"""The settings of every server."""


class MetricsExporter(Enum):
    """How metrics leave a server. The names are those of a settings file."""

    DISABLE = "DISABLE"
    OTLP_GRPC = "OTLP_GRPC"
    PROM = "PROM"
    LOG = "LOG"


@dataclass(frozen=True, slots=True)
class MetricsChoice:
    """Of one server."""

    exporter: MetricsExporter = MetricsExporter.DISABLE
    host: str = LOOPBACK
    port: int = METRICS_PORT
    labels: str = ""
    """name:value,name:value, added to every sample."""
    samples_max: int = SAMPLES_MAX
    otlp_target: str = ""
    """host:port of a receiver, encrypted; plain with http:// before it."""
    otlp_headers: str = ""
    """name:value,name:value, sent along."""
    otlp_timeout_ms: int = OTLP_TIMEOUT_MS
    otlp_interval_ms: int = OTLP_INTERVAL_MS
    log_interval_ms: int = LOG_INTERVAL_MS


def parse_labels(text: str) -> Mapping[str, str]:
    """The labels of `metricsLabel`. UsageError for another form."""
    labels = _pairs(text)
    if not all(name.isidentifier() and name.isascii() for name in labels):
        raise UsageError(
            f"setting metricsLabel = {text[:200]!r} is no list of labels",
            hint="write name:value,name:value; names are letters, digits and _",
        )
    return labels


def parse_headers(text: str) -> Mapping[str, str]:
    """The headers of `metricsGrpcExporterHeader`, names in lower case. UsageError, which shows no value."""
    headers = {name.lower(): value for name, value in _pairs(text).items()}
    if not all(_HEADER.fullmatch(name) and value.isascii() and value.isprintable() for name, value in headers.items()):
        raise UsageError(
            "setting metricsGrpcExporterHeader is no list of headers",
            hint="write name:value,name:value; names are letters, digits, -, _ and .; values are printable ASCII",
        )
    return headers


def _pairs(text: str) -> dict[str, str]:
    """Names and values of `name:value,name:value`; a pair without a colon has the name ""."""
    pairs = {}
    for pair in filter(None, map(str.strip, text.split(","))):
        name, colon, value = (part.strip() for part in pair.partition(":"))
        pairs[name if colon else ""] = value
    return pairs
