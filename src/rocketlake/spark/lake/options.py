"""Options of format("rocketmq_lake"): every name, its default and range, checked before anything runs.

Owns        names, spelling help, parsing into one frozen value.
Must not know   Spark classes, tables.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from rocketlake.base.errors import UsageError
from rocketlake.spark.lake.catalogs import CATALOG_OPTIONS, catalog_settings
from rocketlake.spark.lake.merge_rule import MERGE_OPTIONS, MergeRule, merge_rule
from rocketlake.spark.option_values import Given, OptionNames
from rocketlake.spark.places.location import Location, location_of
from rocketlake.spark.places.settings import STORE_OPTIONS

__all__ = ["DESCRIPTIONS", "FORMATS", "NAMES", "LakeOptions", "parse_options", "table_location"]

DESCRIPTIONS: dict[str, str] = {
    "path": "folder of the table, seen by driver and tasks, or `s3://bucket/folder` (required; `start(path)` and"
    " `save(path)` set it)",
    "tableFormat": "`parquet` (default on a disk), `delta` (default on an object store) or `iceberg`",
    "tableLayout": "`single` (default): one table at `path`; `topic`: a table for each topic, at `path`/topic",
    "partitionBy": "columns, comma separated; default `storeDay` (day of `storeTimestamp`, UTC) where there is one; "
    "`none`",
    "bodyFormat": "`raw` (default): the columns as they are; `json`, `avro`, `protobuf`: the body's fields as columns;"
    " `debezium`: the row in a change, [upserts](lake_upserts.md)",
    "bodySchema": "json: columns as DDL, `id bigint, price double`; without it they are inferred; debezium: those of"
    " the row (required)",
    "avroSchema": "avro: the writers' schema, as JSON text or as path of an .avsc file",
    "protobufDescriptor": "protobuf: path of a descriptor set (`protoc --include_imports -o FILE`)",
    "protobufMessage": "protobuf: full name of the message, `shop.Order`",
    "includeBody": "keep the raw body beside its fields; default `false`",
    "onBadRecord": "`dlq` (default): rows that cannot be stored go to the table `<path>__dlq` or `<topic>__dlq`; "
    "`fail`: stop; `skip`: drop and count them",
    **MERGE_OPTIONS,
    "compareReplays": "`true` (default): a batch that is written again must have the rows it had; `false`: not "
    "compared, for rows that are other ones each time (`uuid()`, `rand()`)",
    "compression": "`zstd` (default), `snappy`, `lz4` or `none`",
    "targetFileBytes": "a data file is closed when it has so many bytes; default 134217728",
    "maxPartitions": "partitions one task may write in one batch, 1 to 10000; default 200",
    "txnAppId": "batch writes only: name of a writer whose writes shall not happen twice, with `txnVersion`",
    "txnVersion": "batch writes only: number of this write, larger than the last; a repeated one does nothing",
    "checkpointLocation": "of Spark; read by nobody here",
    "queryName": "of Spark; read by nobody here",
}

_ELSEWHERE = {
    "format": "use 'tableFormat'",
    "mergeschema": "new columns are always added; remove it",
    "versionasof": "only the newest version is read here; DeltaTable(path, version=N) of deltalake, and pyiceberg, read"
    " older ones of their formats",
    "timestampasof": "only the newest version is read here; deltalake and pyiceberg read older ones of their formats",
    "topic": "the rows' column topic names it; 'tableLayout' = topic makes a table for each",
    "producerid": "use 'txnAppId'",
    "batchid": "use 'txnVersion'",
}

NAMES = OptionNames("rocketmq_lake", DESCRIPTIONS | STORE_OPTIONS | CATALOG_OPTIONS, {}, _ELSEWHERE)

FORMATS = ("parquet", "delta", "iceberg")
_STORED_FORMATS = ("delta", "parquet", "iceberg")
_OF_BODY_FORMAT = {
    "bodySchema": "json, debezium",
    "avroSchema": "avro",
    "protobufDescriptor": "protobuf",
    "protobufMessage": "protobuf",
}


@dataclass(frozen=True, slots=True)
class LakeOptions:
    """Checked options of one write. `partition_by` is None if the option is not given."""

    location: Location
    table_format: str
    per_topic: bool
    partition_by: tuple[str, ...] | None
    body_format: str
    body_schema: str
    avro_schema: str
    protobuf_descriptor: str
    protobuf_message: str
    include_body: bool
    on_bad_record: str
    merge: MergeRule | None
    compare_replays: bool
    compression: str
    target_file_bytes: int
    partitions_max: int
    txn_app_id: str
    txn_version: int


def parse_options(options: Mapping[str, str], *, streaming: bool) -> LakeOptions:
    """Check every option; UsageError names the option, its value and the cure."""
    given = NAMES.given(options)
    body_format = given.choice("bodyFormat", ("raw", "json", "avro", "protobuf", "debezium"))
    for name, owner in _OF_BODY_FORMAT.items():
        if name in given and body_format not in owner.split(", "):
            raise UsageError(f"option '{name}' belongs to bodyFormat = {owner}, not {body_format}", hint="remove it")
    for name in _OF_BODY_FORMAT if body_format != "json" else ():
        if body_format in _OF_BODY_FORMAT[name] and not given.text(name):
            raise UsageError(f"bodyFormat = {body_format} needs option '{name}'", hint=f"give {DESCRIPTIONS[name]}")
    location = table_location(given)
    table_format = _format(given, location)
    merge = merge_rule(given, table_format=table_format, body_format=body_format)
    return LakeOptions(
        location=location,
        table_format=table_format,
        per_topic=given.choice("tableLayout", ("single", "topic")) == "topic",
        partition_by=() if merge else _columns(given),
        merge=merge,
        body_format=body_format,
        body_schema=given.text("bodySchema"),
        avro_schema=given.text("avroSchema"),
        protobuf_descriptor=given.text("protobufDescriptor"),
        protobuf_message=given.text("protobufMessage"),
        include_body=given.flag("includeBody", default=body_format == "raw"),
        on_bad_record=given.choice("onBadRecord", ("dlq", "fail", "skip")),
        compare_replays=given.flag("compareReplays", default=True),
        compression=given.choice("compression", ("zstd", "snappy", "lz4", "none")),
        target_file_bytes=given.number("targetFileBytes", 128 << 20, low=1 << 16, high=1 << 40),
        partitions_max=given.number("maxPartitions", 200, low=1, high=10_000),
        txn_app_id=_transaction(given, streaming),
        txn_version=given.number("txnVersion", 0, low=0, high=999_999_999_999),
    )


def table_location(given: Given) -> Location:
    """Option path and the options of its store."""
    text = given.text("path")
    if not text:
        raise UsageError(
            "option 'path' is missing",
            hint='give .option("path", "/data/orders") or .start("/data/orders"); with toTable and INSERT Spark gives'
            " a writer no path",
        )
    location = location_of(text, given.values, what="option 'path'")
    return replace(location, settings=location.settings + catalog_settings(given.values))


def _format(given: Given, location: Location) -> str:
    table_format = given.choice("tableFormat", FORMATS if location.is_local else _STORED_FORMATS)
    has_catalog = "catalog.type" in dict(location.settings)
    if table_format == "iceberg" and not has_catalog and not location.is_local:
        raise UsageError(
            "tableFormat = iceberg needs a catalog, which lies beside the data only on a disk",
            hint="give 'catalog.type' and 'catalog.uri', or use delta (the default on an object store)",
        )
    if has_catalog and table_format != "iceberg":
        raise UsageError(
            f"options 'catalog.*' are given, and the table is of format {table_format}",
            hint="set tableFormat = iceberg, or leave them out",
        )
    if table_format != "parquet" and any(char in str(location) for char in "%?#"):
        raise UsageError(
            f"option 'path' is '{location}', and {table_format} takes it for a URI", hint="leave out %, ? and #"
        )
    return table_format


def _columns(given: Given) -> tuple[str, ...] | None:
    if "partitionBy" not in given:
        return None
    text = given.text("partitionBy")
    if text.lower() in ("", "none"):
        return ()
    names = tuple(part.strip() for part in text.split(","))
    if "" in names or len({name.lower() for name in names}) < len(names):
        raise UsageError(f"option 'partitionBy' is '{text}'", hint="name each column once, storeDay,tags")
    return names


def _transaction(given: Given, streaming: bool) -> str:
    if streaming:
        for name in ("txnAppId", "txnVersion"):
            if name in given:
                raise UsageError(
                    f"option '{name}' belongs to a batch write (df.write) only: a stream has its query id",
                    hint="remove it",
                )
        return ""
    text = given.text("txnAppId")
    if bool(text) != ("txnVersion" in given):
        raise UsageError("options 'txnAppId' and 'txnVersion' belong together", hint="give both or none")
    if len(text) > 100 or not all(char.isascii() and (char.isalnum() or char in "_.-") for char in text):
        raise UsageError(f"option 'txnAppId' is '{text[:120]}'", hint="use 1 to 100 letters, digits, '_', '.' or '-'")
    if text.startswith(("batch-", "compact-")):
        raise UsageError(
            f"option 'txnAppId' is '{text}'", hint="choose another name: those that begin so are RocketLake's own"
        )
    return text
