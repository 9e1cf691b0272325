"""A wanted table -> the pipeline that keeps it: places, options, one route.

Owns        what one service is asked for, where tables, checkpoints and losses lie, the options of source and sink.
Must not know   Spark sessions, when a pipeline runs.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from rocketlake.base.errors import UsageError
from rocketlake.spark.lake.catalogs import CATALOG_OPTIONS
from rocketlake.spark.lake.description import Descriptions
from rocketlake.spark.lake.options import DESCRIPTIONS as OF_SINK
from rocketlake.spark.lake.options import parse_options as parse_sink
from rocketlake.spark.lake.tables.open_table import open_table
from rocketlake.spark.option_values import scheme_of
from rocketlake.spark.pipeline.model import Options, Pipeline, Route, Sink, Source
from rocketlake.spark.pipeline.serving.wanted import WantedTable
from rocketlake.spark.places.location import Location, is_stored, location_of
from rocketlake.spark.places.settings import STORE_OPTIONS

__all__ = ["CHECKPOINTS", "ServePlan", "loss_location", "pipeline_of", "refuse_lost_checkpoint", "table_location"]

_ROUTE = "table"
CHECKPOINTS = "_checkpoints"
"""Folder beside the tables on a disk, unless another is given."""
_LOSSES = "_losses"
_NOT_TOPICS = (CHECKPOINTS, _LOSSES)


@dataclass(frozen=True)
class ServePlan:
    """What one service is asked for. `to`: folder or url above all tables; `checkpoint`: folder of Spark's checkpoints.

    `at_once`: turns that run beside each other; a table that is kept up is looked after each `upkeep_seconds`.
    """

    namesrv: str
    to: str
    checkpoint: str
    at_once: int = 4
    every_seconds: float = 10.0
    upkeep_seconds: float = 3600.0
    history_seconds: float = 7 * 86_400.0
    file_bytes: int = 128 << 20


def table_location(plan: ServePlan, wanted: WantedTable) -> Location:
    """The folder of the topic's table. UsageError for a name that the place cannot have."""
    return parse_sink(_sink_options(plan, wanted), streaming=True).location


def loss_location(plan: ServePlan, wanted: WantedTable) -> Location | Path:
    """The folder in which losses of the topic are noted."""
    text = dict(wanted.options).get("lossTable") or _loss_table(plan, wanted)
    return location_of(text, dict(wanted.options), what="lossTable") if is_stored(text) else Path(text)


def pipeline_of(plan: ServePlan, wanted: WantedTable) -> Pipeline:
    """The pipeline of one topic. UsageError for options that do not go together."""
    if wanted.topic in _NOT_TOPICS:
        raise UsageError(
            f"topic {wanted.topic} has the name of a folder beside the tables",
            hint="leave its attribute away: --lake off",
        )
    sink = _sink_options(plan, wanted)
    parse_sink(sink, streaming=True)
    where = f"topic {wanted.topic}"
    return Pipeline(
        name=wanted.topic,
        source=Source("rocketmq", _options(_source_options(plan, wanted), where), where=where),
        routes=(
            Route(_ROUTE, Sink("rocketmq_lake", _options(sink | {"queryName": wanted.topic}, where), where=where)),
        ),
        on_error="skip",  # bodies are read by the sink, which has dead letters of its own
        checkpoint=f"{plan.checkpoint}/{wanted.topic}",
    )


def _options(values: dict[str, str], where: str) -> Options:
    return Options(values, dict.fromkeys(values, where))


def _source_options(plan: ServePlan, wanted: WantedTable) -> dict[str, str]:
    own = {name: value for name, value in wanted.options if name in STORE_OPTIONS or not _is_of_sink(name)}
    return {
        "namesrvAddr": plan.namesrv,
        "subscribe": wanted.topic,
        "startingOffsets": "earliest",
        "failOnDataLoss": "false",
        "lossTable": _loss_table(plan, wanted),
    } | own


def _sink_options(plan: ServePlan, wanted: WantedTable) -> dict[str, str]:
    own = {name: value for name, value in wanted.options if _is_of_sink(name)}
    return {"path": f"{plan.to}/{wanted.topic}"} | own


def _is_of_sink(name: str) -> bool:
    return name in OF_SINK or name in STORE_OPTIONS or name in CATALOG_OPTIONS


def _loss_table(plan: ServePlan, wanted: WantedTable) -> str:
    return f"{plan.to}/{_LOSSES}/{wanted.topic}"


def refuse_lost_checkpoint(plan: ServePlan, wanted: WantedTable) -> None:
    """UsageError if the table has rows and the query has no checkpoint: it would write all of them again."""
    if scheme_of(plan.checkpoint) or Path(plan.checkpoint, wanted.topic, _ROUTE).exists():
        return
    if "startingOffsets" in dict(wanted.options):
        return
    location = table_location(plan, wanted)
    description = Descriptions(location).latest()
    if description is not None and open_table(location, description.table_format).history(1):
        raise UsageError(
            f"the table {location} has rows, and there is no checkpoint that says up to which message",
            where=f"{plan.checkpoint}/{wanted.topic}",
            hint="give the folder of the service that wrote it with --checkpoint; or set startingOffsets of this topic"
            " in the --config file to the output of `rocketlake lake info TABLE --offsets`",
        )
