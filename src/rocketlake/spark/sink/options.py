"""Options of the sink: every name, its default and range, checked before anything runs.

Owns        names, spelling help, parsing into one frozen value.
Must not know   Spark's classes, the network.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from rocketlake.base.errors import UsageError
from rocketlake.model.names import check_topic, is_sendable_topic
from rocketlake.spark.option_values import Given, OptionNames
from rocketlake.spark.places.location import is_stored, location_of
from rocketlake.spark.places.settings import STORE_OPTIONS, Settings, store_settings

__all__ = ["DESCRIPTIONS", "DLQ_SUFFIX", "NAMES", "SinkOptions", "parse_options"]

DESCRIPTIONS: dict[str, str] = {
    "namesrvAddr": "name servers, `host:port;host:port` (required; alias `nameServer`)",
    "tlsConfigFile": "file of certificates, on each worker at this path; connections are encrypted then",
    "credentialsFile": "file with accessKey and secretKey of a user, on driver and workers at this path",
    "topic": "topic of all rows; without it each row names one in column `topic`",
    "deliveryGuarantee": "`at_least_once` (default); `effectively_once`: brokers drop what a repeated task sends;"
    " `exactly_once`: a micro-batch becomes visible as a whole, or never",
    "decisionTopic": "`exactly_once`: topic that keeps the decision about each batch; default `<topic>__decisions`",
    "batchTimeoutMs": "`exactly_once`: a batch without a decision for so long fails; default 3600000",
    "producerId": "batch writes: a name that a repeated write has again, so that it can be told; needs `batchId`",
    "batchId": "batch writes: number of this write; the same one again is a replay, a lower one is refused",
    "onInvalidRow": "`fail` (default), `skip`, or `dlq`: what becomes of a row that makes no message",
    "dlqTopic": "`dlq`: topic of invalid rows; default `<topic>__dlq`",
    "dlqPath": "`dlq`: folder that all workers see, or `s3://bucket/folder`, for invalid rows as Parquet, not a topic",
    "batchBytes": "bytes of messages in one request; default 256k",
    "inFlight": "requests of one task under way at once, one for a queue; default 4",
    "maxMessageBytes": "longest message; the broker's `maxMessageSize` holds for messages and for requests; default 4m",
    "sendTimeoutMs": "wait for the answer to one request; default 10000",
    "deliveryTimeoutMs": "how long a request is tried again before the task fails; default 120000",
    "retryIntervalMs": "pause before the first new try, doubled up to 5 s; default 100",
    "progressPath": "file at the driver to which each committed batch adds its counts, one line of JSON",
}

_ELSEWHERE: dict[str, str] = {
    "kafka.bootstrap.servers": "name the RocketMQ name servers in 'namesrvAddr'",
    "endpoints": "5.x proxies are not supported yet; name the name servers in 'namesrvAddr'",
    "subscribe": "'subscribe' is for reading; name the topic to write to in 'topic'",
    "topics": "use 'topic', or a column 'topic'",
    "format": 'pack other columns yourself: .selectExpr("to_json(struct(*)) as body")',
    "includeheaders": "headers are the column 'properties'",
    "exactly.once": "use 'deliveryGuarantee'",
    "tags": "tags are a column: .withColumn('tags', lit('TagA'))",
    "keys": "keys are a column: .withColumn('keys', col('id'))",
    "path": "save() and start() take no path; name the topic in 'topic'",
    "txnappid": "use 'producerId'",
    "txnversion": "use 'batchId'",
    "retries": "tries are bounded by time: 'deliveryTimeoutMs'",
}

NAMES = OptionNames("rocketmq", DESCRIPTIONS | STORE_OPTIONS, {"nameserver": "namesrvAddr"}, _ELSEWHERE)

_OF_SPARK = frozenset(("checkpointlocation", "queryname", "outputmode"))
"""Options that Spark passes on to every sink."""
_PRODUCER_ID = re.compile(r"[\w.-]{1,80}", re.ASCII)
DLQ_SUFFIX = "__dlq"
DECISIONS_SUFFIX = "__decisions"


@dataclass(frozen=True, slots=True)
class SinkOptions:
    """Checked options of one sink. Times in milliseconds, sizes in bytes."""

    namesrv: str
    topic: str
    effectively_once: bool
    producer_id: str
    batch_id: int
    on_invalid_row: str
    dlq_topic: str
    dlq_path: str
    batch_bytes: int
    in_flight: int
    message_bytes_max: int
    send_timeout_ms: int
    delivery_timeout_ms: int
    retry_interval_ms: int
    progress_path: str
    store: Settings = ()
    """Options of the object store on which `dlq_path` lies."""
    tls_file: str = ""
    credentials_file: str = ""
    exactly_once: bool = False
    decision_topic: str = ""
    batch_timeout_ms: int = 3_600_000

    @property
    def is_repeatable(self) -> bool:
        """True if a repeated task stores nothing twice: its topics must exist, and no row may be delayed."""
        return self.effectively_once or self.exactly_once


def parse_options(options: Mapping[str, str], *, streaming: bool) -> SinkOptions:
    """Check every option; UsageError names the option, its value and the cure."""
    given = NAMES.given({name: value for name, value in options.items() if name.lower() not in _OF_SPARK})
    topic = given.text("topic")
    if topic:
        _check_target("topic", topic)
    guarantee = given.choice("deliveryGuarantee", ("at_least_once", "effectively_once", "exactly_once"))
    on_invalid_row = given.choice("onInvalidRow", ("fail", "skip", "dlq"))
    dlq_topic, dlq_path = _dead_letters(given, topic, on_invalid_row)
    producer_id, batch_id = _producer(given, streaming=streaming)
    exactly_once = guarantee == "exactly_once"
    if exactly_once:
        _check_exactly_once(given, options, producer_id, streaming=streaming)
    decision_topic = _decision_topic(given, topic, dlq_topic, exactly_once=exactly_once)
    message_bytes_max = given.size("maxMessageBytes") or 4 << 20
    return SinkOptions(
        namesrv=given.namesrv(),
        topic=topic,
        effectively_once=guarantee == "effectively_once",
        producer_id=producer_id,
        batch_id=batch_id,
        on_invalid_row=on_invalid_row,
        dlq_topic=dlq_topic,
        dlq_path=dlq_path,
        store=store_settings(given.values),
        batch_bytes=_bounded(given, "batchBytes", 256 << 10, low=1, high=16 << 20),
        in_flight=given.number("inFlight", 4, low=1, high=256),
        message_bytes_max=min(message_bytes_max, 64 << 20),
        send_timeout_ms=given.number("sendTimeoutMs", 10_000, low=100, high=600_000),
        delivery_timeout_ms=given.number("deliveryTimeoutMs", 120_000, low=100, high=86_400_000),
        retry_interval_ms=given.number("retryIntervalMs", 100, low=1, high=5000),
        progress_path=given.path("progressPath"),
        tls_file=given.path("tlsConfigFile"),
        credentials_file=given.path("credentialsFile"),
        exactly_once=exactly_once,
        decision_topic=decision_topic,
        batch_timeout_ms=given.number("batchTimeoutMs", 3_600_000, low=1000, high=86_400_000),
    )


def _check_target(option: str, topic: str) -> None:
    check_topic(topic)
    if not is_sendable_topic(topic):
        raise UsageError(
            f"option '{option}' is '{topic}', a topic of the broker's own", hint="name a topic of your own"
        )


def _bounded(given: Given, name: str, default: int, *, low: int, high: int) -> int:
    size = given.size(name) or default
    if not low <= size <= high:
        raise UsageError(f"option '{name}' is '{given.text(name)}'", hint=f"give {low} to {high} bytes")
    return size


def _dead_letters(given: Given, topic: str, on_invalid_row: str) -> tuple[str, str]:
    dlq_topic, dlq_path = given.text("dlqTopic"), given.text("dlqPath")
    if is_stored(dlq_path):
        location_of(dlq_path, given.values, what="option 'dlqPath'")
    else:
        dlq_path = given.path("dlqPath")
    for name in ("dlqTopic", "dlqPath"):
        if name in given and on_invalid_row != "dlq":
            raise UsageError(f"option '{name}' is given without onInvalidRow = dlq", hint="add it, or leave it out")
    if on_invalid_row != "dlq" or dlq_path:
        if dlq_topic:
            raise UsageError("options 'dlqTopic' and 'dlqPath' are both given", hint="keep one")
        return "", dlq_path
    if not dlq_topic and not topic:
        raise UsageError(
            "onInvalidRow = dlq needs to know where invalid rows go", hint="give 'dlqTopic', 'dlqPath' or 'topic'"
        )
    dlq_topic = dlq_topic or topic + DLQ_SUFFIX
    _check_target("dlqTopic", dlq_topic)
    if dlq_topic == topic:
        raise UsageError("option 'dlqTopic' names the topic of good rows", hint="give it a topic of its own")
    return dlq_topic, ""


def _producer(given: Given, *, streaming: bool) -> tuple[str, int]:
    producer_id = given.text("producerId")
    if streaming and ("producerId" in given or "batchId" in given):
        raise UsageError(
            "options 'producerId' and 'batchId' are for batch writes",
            hint="leave them out: a stream is known by its query id, and its batches by their ids",
        )
    if bool(producer_id) != ("batchId" in given):
        raise UsageError("options 'producerId' and 'batchId' belong together", hint="give both, or none")
    if producer_id and _PRODUCER_ID.fullmatch(producer_id) is None:
        raise UsageError(f"option 'producerId' is '{producer_id[:100]}'", hint="use letters, digits, . _ -, at most 80")
    return producer_id, given.number("batchId", 0, low=0, high=2**53)


def _check_exactly_once(given: Given, options: Mapping[str, str], producer_id: str, *, streaming: bool) -> None:
    """Refuse what could not be told again after a crash, or could not take part."""
    if not streaming and not producer_id:
        raise UsageError(
            "a batch write with deliveryGuarantee = exactly_once has no name, so nobody could end it after a crash",
            hint="give 'producerId' and 'batchId', the same ones whenever this write is repeated",
        )
    named = {name.lower() for name, value in options.items() if value}
    if streaming and not {"checkpointlocation", "queryname"} & named:
        raise UsageError(
            "a stream with deliveryGuarantee = exactly_once has no checkpoint that its next driver would find",
            hint="set option 'checkpointLocation', or a query name below spark.sql.streaming.checkpointLocation",
        )
    if given.text("dlqPath"):
        raise UsageError(
            "option 'dlqPath' is given with deliveryGuarantee = exactly_once: files take no part in its decision",
            hint="give 'dlqTopic': dead letters become visible with the batch then",
        )


def _decision_topic(given: Given, topic: str, dlq_topic: str, *, exactly_once: bool) -> str:
    name = given.text("decisionTopic")
    for option in ("decisionTopic", "batchTimeoutMs"):
        if option in given and not exactly_once:
            raise UsageError(
                f"option '{option}' is given without deliveryGuarantee = exactly_once", hint="add it, or leave it out"
            )
    if not exactly_once:
        return ""
    if not name and not topic:
        raise UsageError(
            "deliveryGuarantee = exactly_once needs a topic for its decisions", hint="give 'decisionTopic' or 'topic'"
        )
    name = name or topic + DECISIONS_SUFFIX
    _check_target("decisionTopic", name)
    if name in (topic, dlq_topic):
        raise UsageError("option 'decisionTopic' names a topic of rows", hint="give decisions a topic of their own")
    return name
