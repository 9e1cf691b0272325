"""Options of a read, checked before anything runs.

Owns        the frozen value of all options; the rules which ones belong to batch or stream, and which exclude each
            other.
Must not know   Spark classes, the network; names and hints are in option_table.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from rocketlake.base.errors import UsageError
from rocketlake.filter.sql_parser import parse_sql92
from rocketlake.model.names import FIRST_OFFSETS_ENDING, check_group
from rocketlake.spark.option_values import Given
from rocketlake.spark.places.settings import Settings, store_settings
from rocketlake.spark.source.folders import kept_location
from rocketlake.spark.source.option_table import NAMES
from rocketlake.spark.source.positions import Kind, Positions, Side, parse_positions
from rocketlake.spark.source.topics import TopicChoice, parse_choice

__all__ = ["SourceOptions", "parse_options"]

_STREAM_ONLY = ("maxOffsetsPerTrigger", "maxBytesPerTrigger", "minOffsetsPerTrigger", "maxTriggerDelay", "offsetStore")


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """Checked options of one read. Times in milliseconds, offsets in messages."""

    namesrv: str
    topics: TopicChoice
    starting: Positions
    ending: Positions
    max_offsets_per_trigger: int | None
    max_bytes_per_trigger: int | None
    min_offsets_per_trigger: int | None
    max_trigger_delay_ms: int
    fail_on_data_loss: bool
    loss_table: str
    tags: str
    sql92: str
    push_down: bool
    key_index: bool
    consumer_group: str
    offset_store: str
    min_partitions: int
    max_records_per_partition: int | None
    max_bytes_per_partition: int | None
    pull_batch_size: int
    pull_timeout_ms: int
    retries: int
    retry_interval_ms: int
    broker_wait_ms: int
    store: Settings = ()
    """Options of the object store on which folders lie."""
    tls_file: str = ""
    credentials_file: str = ""

    @property
    def start_group(self) -> str:
        """The group under which the brokers keep a stream's first offsets (start_store.py)."""
        return self.consumer_group + FIRST_OFFSETS_ENDING

    @property
    def is_filtered(self) -> bool:
        """True if the broker filters messages."""
        return self.tags != "*" or bool(self.sql92)


def parse_options(options: Mapping[str, str], *, streaming: bool) -> SourceOptions:
    """Check every option; UsageError names the option, its value and the cure."""
    given = NAMES.given(options)
    _check_mode(given, streaming=streaming)
    group = given.text("consumerGroup")
    parsed = SourceOptions(
        namesrv=given.namesrv(),
        topics=parse_choice(given),
        starting=parse_positions(
            given, Side.STARTING, "latest" if streaming else "earliest", group=given.text("startingGroup") or group
        ),
        ending=parse_positions(given, Side.ENDING, "latest", group=given.text("endingGroup") or group),
        max_offsets_per_trigger=given.optional_number("maxOffsetsPerTrigger"),
        max_bytes_per_trigger=given.size("maxBytesPerTrigger"),
        min_offsets_per_trigger=given.optional_number("minOffsetsPerTrigger"),
        max_trigger_delay_ms=given.duration_ms("maxTriggerDelay", "15m"),
        fail_on_data_loss=given.flag("failOnDataLoss", default=True),
        loss_table=given.text("lossTable"),
        tags=given.text("tags") or "*",
        sql92=given.text("filter.sql92"),
        push_down=given.flag("pushDown", default=False),
        key_index=given.flag("keyIndex", default=False),
        consumer_group=group,
        offset_store=given.text("offsetStore"),
        min_partitions=given.number("minPartitions", 1, low=1, high=100_000),
        max_records_per_partition=given.optional_number("maxRecordsPerPartition"),
        max_bytes_per_partition=given.size("maxBytesPerPartition"),
        pull_batch_size=given.number("pullBatchSize", 256, low=1, high=1024),
        pull_timeout_ms=given.number("pullTimeoutMs", 10_000, low=100, high=600_000),
        retries=given.number("fetchOffset.numRetries", 5, low=0, high=1000),
        retry_interval_ms=given.number("fetchOffset.retryIntervalMs", 500, low=1, high=60_000),
        broker_wait_ms=given.duration_ms("brokerWait", "2m"),
        store=store_settings(given.values),
        tls_file=given.path("tlsConfigFile"),
        credentials_file=given.path("credentialsFile"),
    )
    _check_together(parsed, given, streaming=streaming)
    return parsed


def _check_mode(given: Given, *, streaming: bool) -> None:
    for name in ("endingGroup", "pushDown", "keyIndex") if streaming else (*_STREAM_ONLY, "consumerGroup"):
        if name in given:
            kind = "a batch read (spark.read)" if streaming else "a stream (spark.readStream)"
            hint = (
                "'startingGroup' and 'endingGroup' name groups to read by" if name == "consumerGroup" else "remove it"
            )
            raise UsageError(f"option '{name}' belongs to {kind} only", hint=hint)


def _check_together(parsed: SourceOptions, given: Given, *, streaming: bool) -> None:
    if parsed.consumer_group:
        check_group(parsed.start_group)
    for name in ("startingGroup", "endingGroup"):
        if name in given:
            check_group(given.text(name))
    if "maxTriggerDelay" in given and parsed.min_offsets_per_trigger is None:
        raise UsageError("option 'maxTriggerDelay' bounds the wait for 'minOffsetsPerTrigger'", hint="set both")
    if parsed.key_index and not parsed.push_down:
        raise UsageError("option 'keyIndex' is about conditions that Spark pushes down", hint="set pushDown = true")
    limits = parsed.min_offsets_per_trigger, parsed.max_offsets_per_trigger
    if limits[0] is not None and limits[1] is not None and limits[0] > limits[1]:
        raise UsageError(
            f"option 'minOffsetsPerTrigger' is {limits[0]}, more than 'maxOffsetsPerTrigger' = {limits[1]}",
            hint="give a minimum that is not above the maximum",
        )
    for name, folder in (("offsetStore", parsed.offset_store), ("lossTable", parsed.loss_table)):
        if folder:
            kept_location(name, folder, parsed.store)
    _check_filters(parsed)
    _check_positions(parsed, streaming=streaming)


def _check_filters(parsed: SourceOptions) -> None:
    if not parsed.sql92:
        return
    if parsed.tags != "*":
        raise UsageError(
            "options 'tags' and 'filter.sql92' are given, and a broker filters by one of them",
            hint="write the tag into the expression: TAGS = 'TagA' and ...",
        )
    parse_sql92(parsed.sql92)


def _check_positions(parsed: SourceOptions, *, streaming: bool) -> None:
    starting = parsed.starting
    for positions in (starting, parsed.ending):
        if not parsed.topics.pattern and positions.of_all is None and positions.topics != {*parsed.topics.names}:
            raise UsageError(
                f"option '{positions.option}' names topics {sorted(positions.topics)}, and the read is of "
                f"{list(parsed.topics.names)}",
                hint="name the same topics in both",
            )
    if not streaming:
        if starting.uses(Kind.LATEST):
            raise UsageError(
                "option 'startingOffsets' says latest, and a batch read would be empty", hint="set it to earliest"
            )
        return
    if parsed.ending.uses(Kind.GROUP):
        raise UsageError("a stream cannot end at a group's offset", hint="give 'endingTimestamp', or offsets as JSON")
    if (starting.uses(Kind.LATEST) or starting.uses(Kind.GROUP)) and not (parsed.consumer_group or parsed.offset_store):
        word = "latest" if starting.uses(Kind.LATEST) else "group"
        raise UsageError(
            f"a stream that starts at '{word}' must remember where that was: Spark does not store it, so a query "
            "stopped in its first batch would lose the messages that came meanwhile",
            hint="set 'offsetStore' (a folder, best inside the checkpoint) or 'consumerGroup' (kept by the broker), "
            "or startingOffsets = earliest",
        )
