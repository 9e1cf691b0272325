"""Metrics as Prometheus reads them: families of samples, and their text.

Owns        the text format 0.0.4, units in names, how labels are written, the limit on the samples of a family.
Must not know   what is measured, HTTP.

A family is given by its bare name and its unit. On the endpoint the unit is part of the name, as OpenTelemetry's
exporter in Apache's broker writes it: `rocketmq_consumer_lag_latency` in milliseconds is
`rocketmq_consumer_lag_latency_milliseconds`.
"""

from __future__ import annotations

import math
import re
from collections.abc import AsyncIterable, AsyncIterator, Iterable, Iterator, Mapping
from itertools import accumulate, islice
from typing import Final, NamedTuple, TypeAlias

from rocketlake.base.clock import Clock
from rocketlake.base.figures.histogram import Histogram

__all__ = [
    "CONTENT_TYPE",
    "Exposition",
    "Family",
    "Pace",
    "Sample",
    "SampleLimit",
    "label_text",
    "labels_of",
    "labels_text",
    "number",
]

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
_LINES_AT_ONCE: Final = 250
_WORK_SECONDS: Final = 0.001
_REST_SECONDS: Final = 0.002
_LABEL: Final = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')
_ESCAPE: Final = re.compile(r"\\(.)")

Sample: TypeAlias = tuple[str, float | Histogram]
"""The labels of its own, made by `labels_text`, and the value."""


class Family(NamedTuple):
    """All samples of one name."""

    name: str
    kind: str
    """counter, gauge or histogram."""
    help: str
    samples: Iterable[Sample]
    unit: str = ""
    """milliseconds, bytes, seconds; "" for counts."""

    @property
    def wire_name(self) -> str:
        """The name on the endpoint: with its unit, once."""
        return self.name if not self.unit or self.name.endswith(f"_{self.unit}") else f"{self.name}_{self.unit}"


def number(name: str, text: str, value: float, unit: str = "", kind: str = "gauge") -> Family:
    """A family of one sample without labels of its own."""
    return Family(name, kind, text, [("", value)], unit)


def labels_text(labels: Mapping[str, object]) -> str:
    """The labels of a sample as text."""
    return ",".join(f'{name}="{label_text(str(value))}"' for name, value in labels.items())


def label_text(value: str) -> str:
    """The value of a label, escaped."""
    if "\\" in value or '"' in value or "\n" in value:
        value = value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return value


def labels_of(text: str) -> Iterator[tuple[str, str]]:
    """Names and values in a text of `labels_text`."""
    for name, value in _LABEL.findall(text):
        yield name, _ESCAPE.sub(_unescape, value) if "\\" in value else value


def _unescape(found: re.Match[str]) -> str:
    return "\n" if found[1] == "n" else found[1]


class Pace:
    """Gives the loop away while much is written: a millisecond of work, two of rest."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._began = clock.monotonic()
        self._worked = 0.0

    @property
    def worked(self) -> float:
        """Seconds of work so far."""
        return self._worked + self._clock.monotonic() - self._began

    @property
    def now_ms(self) -> int:
        """The time of what is collected, epoch ms."""
        return int(self._clock.now_ms())

    async def rest(self) -> None:
        """Called between small pieces of work; returns at once while the millisecond lasts."""
        now = self._clock.monotonic()
        if now - self._began >= _WORK_SECONDS:
            self._worked += now - self._began
            await self._clock.sleep(_REST_SECONDS)
            self._began = self._clock.monotonic()


class SampleLimit:
    """The samples of one reading of all families, as far as the limit on those of one family goes."""

    def __init__(self, samples_max: int) -> None:
        self._samples_max = samples_max
        self.samples = 0
        """How many were let through."""
        self.dropped: dict[str, int] = {}
        """How many were left out, by the name of the family on the endpoint."""

    def of(self, family: Family) -> Iterator[Sample]:
        """The family's samples up to the limit."""
        samples, count = iter(family.samples), 0
        for sample in islice(samples, self._samples_max):
            count += 1
            yield sample
        self.samples += count
        if dropped := sum(1 for _ in samples):
            self.dropped[family.wire_name] = self.dropped.get(family.wire_name, 0) + dropped


class Exposition:
    """The text of families. `common`: labels of every sample."""

    def __init__(self, common: str, limit: SampleLimit) -> None:
        self._common = common
        self._limit = limit

    async def parts(self, families: AsyncIterable[Family], pace: Pace) -> AsyncIterator[bytes]:
        """The text, some lines at a time."""
        lines: list[str] = []
        async for family in families:
            lines.append(f"# HELP {family.wire_name} {_help(family.help)}\n# TYPE {family.wire_name} {family.kind}\n")
            for line in self._lines(family):
                lines.append(line)
                if len(lines) >= _LINES_AT_ONCE:
                    yield "".join(lines).encode()
                    lines = []
                    await pace.rest()
        if lines:
            yield "".join(lines).encode()

    def _lines(self, family: Family) -> Iterator[str]:
        name = family.wire_name
        with_own = f"{name}{{{self._common}{',' if self._common else ''}"
        for own, value in self._limit.of(family):
            if type(value) is int and own:  # nearly all samples
                yield f"{with_own}{own}}} {value}\n"
                continue
            labels = f"{self._common},{own}" if own and self._common else self._common or own
            if isinstance(value, Histogram):
                yield _histogram_lines(name, labels, value)
            else:
                yield f"{name}{{{labels}}} {_value(value)}\n"


def _histogram_lines(name: str, labels: str, histogram: Histogram) -> str:
    comma = "," if labels else ""
    counts = list(accumulate(histogram.counts))
    bounds = (*map(_value, histogram.bounds), "+Inf")
    lines = [
        f'{name}_bucket{{{labels}{comma}le="{bound}"}} {count}\n' for bound, count in zip(bounds, counts, strict=True)
    ]
    return "".join([*lines, f"{name}_count{{{labels}}} {counts[-1]}\n", f"{name}_sum{{{labels}}} {histogram.sum!r}\n"])


def _value(value: float) -> str:
    if isinstance(value, float):
        return repr(value) if math.isfinite(value) else "NaN" if math.isnan(value) else "+Inf" if value > 0 else "-Inf"
    return str(int(value))


def _help(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n")
