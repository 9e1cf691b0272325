"""Options of format("rocketmq"): every name, its default and range, checked before anything runs.

Owns        names, spelling help, parsing into one frozen value.
Must not know   Spark classes, the network.

Names follow Spark's Kafka source where it has the same thing, so that its users find their way.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from rocketlake.base.errors import UsageError
from rocketlake.model.names import check_group, check_topic
from rocketlake.spark.option_values import Given, OptionNames
from rocketlake.spark.source.offsets import EARLIEST, LATEST, StartPositions, parse_positions

__all__ = ["DESCRIPTIONS", "NAMES", "SourceOptions", "parse_options"]

DESCRIPTIONS: dict[str, str] = {
    "namesrvAddr": "name servers, `host:port;host:port` (required; alias `nameServer`)",
    "subscribe": "topics, comma separated (required)",
    "startingOffsets": "`earliest`, `latest` or JSON per queue; stream: default `latest`, batch: default `earliest`",
    "endingOffsets": "batch only: `latest` (default) or JSON per queue, -1 = latest",
    "maxOffsetsPerTrigger": "stream only: at most so many messages per micro-batch, shared by size of backlog",
    "failOnDataLoss": "`true` (default): stop with an error when wanted messages are gone; `false`: log and go on",
    "tags": "tag expression filtered by the broker, `TagA || TagB`; default `*`",
    "includeProperties": "`false` drops the `properties` column; default `true`",
    "consumerGroup": "stream: name of this query at the broker; keeps its first offsets and shows its progress",
    "offsetStore": "stream: folder (seen by the driver) that keeps the first offsets; best inside the checkpoint",
    "minPartitions": "split large ranges until there are at least so many Spark tasks",
    "maxRecordsPerPartition": "split ranges so that no Spark task reads more messages than this",
    "pullBatchSize": "messages asked for per pull, 1 to 1024; the broker may give fewer; default 256",
    "pullTimeoutMs": "wait for one answer of a broker; default 10000",
    "fetchOffset.numRetries": "tries again after a failed call of broker or name server; default 5",
    "fetchOffset.retryIntervalMs": "pause before such a try; default 500",
}

# Names people bring from Kafka or from other RocketMQ connectors -> what to do here.
_ELSEWHERE: dict[str, str] = {
    "kafka.bootstrap.servers": "name the RocketMQ name servers in 'namesrvAddr'",
    "endpoints": "5.x proxies are not supported yet; name the name servers in 'namesrvAddr'",
    "topic": "use 'subscribe'",
    "topics": "use 'subscribe'",
    "subscribepattern": "not supported yet; list the topics in 'subscribe'",
    "assign": "not supported yet; use 'subscribe' with JSON in 'startingOffsets'",
    "subexpression": "use 'tags'",
    "group": "use 'consumerGroup'",
    "kafka.group.id": "use 'consumerGroup'",
    "groupidprefix": "use 'consumerGroup'",
    "includeheaders": "headers are the 'properties' column; 'includeProperties' = true (default) or false",
    "columns": 'not supported yet; give the wanted columns with .schema("queueOffset bigint, body binary")',
    "startingtimestamp": "not supported yet; use 'startingOffsets'",
    "startingoffsetsbytimestamp": "not supported yet; use 'startingOffsets'",
    "endingtimestamp": "not supported yet; use 'endingOffsets'",
    "endingoffsetsbytimestamp": "not supported yet; use 'endingOffsets'",
    "maxbytespertrigger": "not supported yet; use 'maxOffsetsPerTrigger'",
    "minoffsetspertrigger": "not supported yet; use a processing-time trigger",
    "maxtriggerdelay": "not supported yet; use a processing-time trigger",
    "maxbytesperpartition": "not supported yet; use 'maxRecordsPerPartition'",
    "filter.sql92": "not supported yet; use 'tags'",
    "kafkaconsumer.polltimeoutms": "use 'pullTimeoutMs'",
    "path": "load() takes no path; name the topics in 'subscribe'",
}

NAMES = OptionNames("rocketmq", DESCRIPTIONS, {"nameserver": "namesrvAddr"}, _ELSEWHERE)


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """Checked options of one read. Times in milliseconds, sizes in messages."""

    namesrv: str
    topics: tuple[str, ...]
    starting: StartPositions
    ending: StartPositions
    max_offsets_per_trigger: int | None
    fail_on_data_loss: bool
    tags: str
    include_properties: bool
    consumer_group: str
    offset_store: str
    min_partitions: int
    max_records_per_partition: int | None
    pull_batch_size: int
    pull_timeout_ms: int
    retries: int
    retry_interval_ms: int

    @property
    def start_group(self) -> str:
        """The group under which the brokers keep a stream's first offsets (start_store.py)."""
        return f"{self.consumer_group}_spark_start"


def parse_options(options: Mapping[str, str], *, streaming: bool) -> SourceOptions:
    """Check every option; UsageError names the option, its value and the cure."""
    given = NAMES.given(options)
    topics = _topics(given)
    starting = parse_positions(
        "startingOffsets", given.text("startingOffsets", LATEST if streaming else EARLIEST), topics
    )
    ending = parse_positions("endingOffsets", given.text("endingOffsets", LATEST), topics)
    parsed = SourceOptions(
        namesrv=given.namesrv(),
        topics=topics,
        starting=starting,
        ending=ending,
        max_offsets_per_trigger=given.optional_number("maxOffsetsPerTrigger"),
        fail_on_data_loss=given.flag("failOnDataLoss", default=True),
        tags=given.text("tags") or "*",
        include_properties=given.flag("includeProperties", default=True),
        consumer_group=given.text("consumerGroup"),
        offset_store=given.text("offsetStore"),
        min_partitions=given.number("minPartitions", 1, low=1, high=100_000),
        max_records_per_partition=given.optional_number("maxRecordsPerPartition"),
        pull_batch_size=given.number("pullBatchSize", 256, low=1, high=1024),
        pull_timeout_ms=given.number("pullTimeoutMs", 10_000, low=100, high=600_000),
        retries=given.number("fetchOffset.numRetries", 5, low=0, high=1000),
        retry_interval_ms=given.number("fetchOffset.retryIntervalMs", 500, low=1, high=60_000),
    )
    if parsed.consumer_group:
        check_group(parsed.start_group)
    _check_mode(parsed, given, streaming=streaming)
    return parsed


def _topics(given: Given) -> tuple[str, ...]:
    topics = tuple(sorted({part.strip() for part in given.text("subscribe").split(",") if part.strip()}))
    if not topics:
        raise UsageError("option 'subscribe' is missing", hint='.option("subscribe", "orders") or "orders,payments"')
    for topic in topics:
        check_topic(topic)
    return topics


def _check_mode(parsed: SourceOptions, given: Given, *, streaming: bool) -> None:
    wrong = ("endingOffsets",) if streaming else ("maxOffsetsPerTrigger", "consumerGroup", "offsetStore")
    for name in wrong:
        if name in given:
            kind = "a batch read (spark.read)" if streaming else "a stream (spark.readStream)"
            raise UsageError(f"option '{name}' belongs to {kind} only", hint="remove it")
    if not streaming:
        if parsed.starting.mentions(LATEST):
            raise UsageError("option 'startingOffsets' says latest, and a batch read would be empty", hint="earliest")
        return
    if parsed.starting.mentions(LATEST) and not (parsed.consumer_group or parsed.offset_store):
        raise UsageError(
            "a stream that starts at 'latest' must remember where that was: Spark does not store it, so a query "
            "stopped in its first batch would lose the messages that came meanwhile",
            hint="set 'offsetStore' (a folder, best inside the checkpoint) or 'consumerGroup' (kept by the broker), "
            "or startingOffsets = earliest",
        )
