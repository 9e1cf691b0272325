"""What the settings of a server say of its metrics.

Owns        the exporters there are, the values that a Monitor needs.
Must not know   the settings of a server; they are dataclass fields beside its other ones.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final

from rocketlake.base.errors import UsageError

__all__ = [
    "LOOPBACK",
    "METRICS_PORT",
    "METRICS_SETTINGS",
    "SAMPLES_MAX",
    "MetricsChoice",
    "MetricsExporter",
    "parse_labels",
]

METRICS_PORT: Final = 5557
LOOPBACK: Final = "127.0.0.1"
SAMPLES_MAX: Final = 10_000
METRICS_SETTINGS: Final[tuple[str, ...]] = (
    "metricsExporterType",
    "metricsPromExporterHost",
    "metricsPromExporterPort",
    "metricsLabel",
    "metricsOtelCardinalityLimit",
)
"""The settings of every server."""


class MetricsExporter(Enum):
    """How metrics leave a server. The names are those of a settings file."""

    DISABLE = "DISABLE"
    PROM = "PROM"


@dataclass(frozen=True, slots=True)
class MetricsChoice:
    """Of one server."""

    exporter: MetricsExporter = MetricsExporter.DISABLE
    host: str = LOOPBACK
    port: int = METRICS_PORT
    labels: str = ""
    """name:value,name:value, added to every sample."""
    samples_max: int = SAMPLES_MAX


def parse_labels(text: str) -> Mapping[str, str]:
    """The labels of `metricsLabel`. UsageError for another form."""
    labels = {}
    for pair in filter(None, map(str.strip, text.split(","))):
        name, colon, value = (part.strip() for part in pair.partition(":"))
        if not (colon and name.isidentifier() and name.isascii()):
            raise UsageError(
                f"setting metricsLabel = {text[:200]!r} is no list of labels",
                hint="write name:value,name:value; names are letters, digits and _",
            )
        labels[name] = value
    return labels
