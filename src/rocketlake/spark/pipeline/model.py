"""The parts of a pipeline: plain values, checked by read.py.

Owns        the parts of a pipeline and their defaults.
Must not know   YAML, Spark.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from rocketlake.spark.pipeline.environment import Environment

__all__ = ["BAD_ROWS", "Options", "Pipeline", "Route", "Sink", "Source", "View"]

BAD_ROWS = "dlq"
"""Name of the query that takes the bad rows away, and of its checkpoint."""


@dataclass(frozen=True)
class Options:
    """Options of a format as they were written; a value may refer to the environment.

    `places` are the lines of all keys of the section.
    """

    values: Mapping[str, str] = field(default_factory=dict)
    places: Mapping[str, str] = field(default_factory=dict)

    def filled(self, environment: Environment) -> dict[str, str]:
        """The options with the environment's values, which must not be shown."""
        return {name: environment.fill(value, self.places[name]) for name, value in self.values.items()}

    def text(self, *names: str) -> str:
        """The first of these options that is given, in any case of letters; "" if none is."""
        by_lower = {name.lower(): value for name, value in self.values.items()}
        return next((by_lower[name.lower()] for name in names if name.lower() in by_lower), "")

    def place(self, name: str, default: str) -> str:
        """The line of this key, in any case of letters."""
        return next((place for key, place in self.places.items() if key.lower() == name.lower()), default)


@dataclass(frozen=True)
class Source:
    """The source of rows, and how their bodies are read."""

    format: str
    options: Options
    body: str = "raw"
    schema: str = ""
    watermark: tuple[str, str] | None = None
    is_stream: bool = True
    where: str = ""


@dataclass(frozen=True)
class View:
    """A named SQL text over `source` and the views before it."""

    name: str
    sql: str
    where: str
    line_ends: tuple[int, ...] = ()
    """Characters other than blanks before the end of each line in the file, from `where` on."""


@dataclass(frozen=True)
class Sink:
    """The sink of rows."""

    format: str
    options: Options
    partition_by: tuple[str, ...] = ()
    mode: str = "append"
    where: str = ""


@dataclass(frozen=True)
class Route:
    """Rows of `view` (default: the last one) that fulfil `condition` go to the sink; one streaming query."""

    name: str
    sink: Sink
    condition: str = ""
    view: str = ""
    where: str = ""


@dataclass(frozen=True)
class Pipeline:
    """A whole pipeline. `on_error` is fail, skip or dlq; `bad_rows` is the sink of dlq."""

    name: str
    source: Source
    routes: tuple[Route, ...]
    views: tuple[View, ...] = ()
    on_error: str = "fail"
    bad_rows: Sink | None = None
    checkpoint: str = ""
    trigger: str = ""
    spark: Mapping[str, str] = field(default_factory=dict)

    @property
    def sinks(self) -> dict[str, Sink]:
        """Query name -> sink, the one for bad rows included."""
        found = {route.name: route.sink for route in self.routes}
        return found | {BAD_ROWS: self.bad_rows} if self.bad_rows is not None else found
