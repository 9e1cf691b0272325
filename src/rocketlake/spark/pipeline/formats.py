"""Formats by name: their properties, known without Spark.

Owns        the names of formats, the option tables of ours, the formats that cannot stream.
Must not know   insides of a format; only its option table is read, and only when a pipeline names it.
"""

from __future__ import annotations

from collections.abc import Collection
from importlib import import_module
from typing import cast

from rocketlake.base.errors import UsageError
from rocketlake.spark.option_values import OptionNames
from rocketlake.spark.pipeline.keys import KEYS, nearest
from rocketlake.spark.pipeline.model import Options

__all__ = ["BATCH_ONLY", "DATA_SOURCES", "DESTINATIONS", "PARTITION_OPTION", "check_format", "check_options"]

BATCH_ONLY = frozenset({"rocketmq_store"})
PARTITION_OPTION = frozenset({"rocketmq_lake"})
"""Formats that take partition columns as an option of their own; Spark's partitionBy() is for its file sinks."""
DESTINATIONS = ("topic", "table", "path", "queryName")
"""Options that say where a sink writes."""

_SOURCES = ("rocketmq", "rocketmq_store", "parquet", "json", "csv", "orc", "text", "avro", "rate", "kafka")
_SINKS = ("rocketmq", "rocketmq_lake", "parquet", "json", "csv", "orc", "text", "console", "memory", "noop", "kafka")


_TABLES = {
    ("source", "rocketmq"): "rocketlake.spark.source.option_table",
    ("sink", "rocketmq"): "rocketlake.spark.sink.options",
    ("sink", "rocketmq_lake"): "rocketlake.spark.lake.options",
    ("source", "rocketmq_store"): "rocketlake.spark.scan.options",
}
"""The module with the option table (NAMES) of each of our formats."""


DATA_SOURCES = {
    "rocketmq": ("rocketlake.spark.data_source", "RocketMQDataSource"),
    "rocketmq_lake": ("rocketlake.spark.lake.data_source", "RocketMQLakeDataSource"),
    "rocketmq_store": ("rocketlake.spark.scan.data_source", "StoreDataSource"),
}
"""Module and class of each of our formats."""


def check_format(name: str, kind: str, where: str) -> None:
    """Raises UsageError for a name that looks like a misspelt format; Spark looks up any other name."""
    known: Collection[str] = _SOURCES if kind == "source" else _SINKS
    near = nearest(name, dict.fromkeys(known))
    if name not in known and near:
        raise UsageError(f"there is no format '{name}'", where=where, hint=f"did you mean '{near}'?")


def _names(format_name: str, kind: str) -> OptionNames | None:
    module = _TABLES.get((kind, format_name))
    return cast(OptionNames, import_module(module).NAMES) if module else None


def check_options(format_name: str, options: Options, kind: str) -> None:
    """Each option of our formats must be known; one of another format must not look like a key of ours."""
    names = _names(format_name, kind)
    for name in options.values:
        where = options.places[name]
        meant = nearest(name, KEYS[kind])
        if names is None:
            if meant:
                raise UsageError(f"{kind} has no key '{name}'", where=where, hint=f"did you mean '{meant}'?")
            continue
        try:
            names.given({name: ""})
        except UsageError as error:
            hint = f"did you mean '{meant}'?" if meant else error.hint
            raise UsageError(error.what, where=where, hint=hint) from None
