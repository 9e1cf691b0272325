"""`rocketlake pipeline check`: the checks of a pipeline that need no run.

Owns        the steps of a check, the sample through the real transform.
Must not know   how findings are shown.

A check writes nothing and touches no group: the sample is a bounded batch read beside all groups.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from importlib import import_module
from typing import Any, cast

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import CaseInsensitiveDict, DataSource
from pyspark.sql.types import StructType

from rocketlake.base.errors import RocketLakeError, UsageError
from rocketlake.client.wire import ClientConfig
from rocketlake.spark.pipeline.engine import Flow, build
from rocketlake.spark.pipeline.environment import Environment
from rocketlake.spark.pipeline.formats import DATA_SOURCES
from rocketlake.spark.pipeline.model import BAD_ROWS, Options, Pipeline, Sink, Source
from rocketlake.spark.pipeline.spark_errors import explained
from rocketlake.spark.pipeline.topics import TopicSample, offsets_option, sample_topics, topics_like

__all__ = ["SAMPLE_ROWS", "Finding", "Sample", "check_cluster", "check_plans", "read_samples"]

SAMPLE_ROWS = 10
_FILTERED_ROWS = 1000
"""Messages read for a sample when the broker filters: few of them may match."""
_CELL_CHARS = 60
_BATCH_OPTIONS = (
    "namesrvAddr", "nameServer", "tlsConfigFile", "credentialsFile", "tags", "filter.sql92", "columns",
    "includeProperties", "includeSystemTopics", "pullBatchSize", "pullTimeoutMs", "failOnDataLoss",
)  # fmt: skip
"""Options of a stream that mean the same for the sample."""


@dataclass(frozen=True)
class Finding:
    """One line of the check; one that is not `good` is a warning, errors are raised."""

    text: str
    good: bool = True


@dataclass(frozen=True)
class Sample:
    """Rows of one route: schema as DDL, column names, cells."""

    route: str
    schema: str
    columns: list[str]
    rows: list[list[str]]


def check_cluster(pipeline: Pipeline, environment: Environment) -> tuple[list[Finding], list[TopicSample]]:
    """Ask the cluster for the topics, if it can be reached; a cluster that does not answer is a warning."""
    findings: list[Finding] = []
    samples: list[TopicSample] = []
    if pipeline.source.format == "rocketmq":
        options = pipeline.source.options.filled(environment)
        reached = _reach(options, pipeline.source.where)
        try:
            topics = _topics(options, reached)
            is_filtered = bool(pipeline.source.options.text("tags", "filter.sql92"))
            samples = sample_topics(reached, topics, _FILTERED_ROWS if is_filtered else SAMPLE_ROWS)
        except RocketLakeError as error:
            return [Finding(environment.hide(f"the cluster was not asked: {error}"), good=False)], []
        findings += [_source_finding(sample) for sample in samples]
        if not samples:
            findings.append(Finding("no topic matches now", good=False))
    for name, sink in pipeline.sinks.items():
        topic = sink.options.text("topic")
        if sink.format == "rocketmq" and topic:
            findings.append(_sink_finding(name, sink, environment))
    return findings, [sample for sample in samples if sample.queues is not None]


def _reach(options: dict[str, str], where: str) -> ClientConfig:
    by_lower = {name.lower(): value for name, value in options.items()}
    address = by_lower.get("namesrvaddr") or by_lower.get("nameserver")
    if not address:
        raise UsageError("the name server is not given", where=where, hint="add namesrvAddr: 127.0.0.1:9876")
    return ClientConfig(
        namesrv=address,
        tls_config_file=by_lower.get("tlsconfigfile", ""),
        credentials_file=by_lower.get("credentialsfile", ""),
    )


def _topics(options: dict[str, str], config: ClientConfig) -> list[str]:
    by_lower = {name.lower(): value for name, value in options.items()}
    if by_lower.get("subscribe"):
        return [part.strip() for part in by_lower["subscribe"].split(",") if part.strip()]
    if by_lower.get("assign"):
        try:
            return sorted(json.loads(by_lower["assign"]))
        except ValueError as error:
            raise UsageError(
                "option 'assign' is not JSON", hint='write it like {"topic": {"broker-a": [0, 1]}}'
            ) from error
    if by_lower.get("subscribepattern"):
        return topics_like(config, by_lower["subscribepattern"])
    raise UsageError("the source names no topic", hint="add `subscribe: TOPIC`")


def _source_finding(sample: TopicSample) -> Finding:
    if sample.queues is None:
        return Finding(f"topic {sample.topic} does not exist; `run` would fail", good=False)
    return Finding(f"topic {sample.topic}: {len(sample.queues)} queues, {sample.messages:,} messages")


def _sink_finding(name: str, sink: Sink, environment: Environment) -> Finding:
    options = sink.options.filled(environment)
    topic = sink.options.text("topic")
    try:
        (sample,) = sample_topics(_reach(options, sink.where), [environment.fill(topic, sink.where)], 1)
    except RocketLakeError as error:
        return Finding(environment.hide(f"sink {name}: the cluster was not asked: {error}"), good=False)
    if sample.queues is None:
        guarantee = options.get("deliveryGuarantee", "").strip()
        must_exist = guarantee in ("effectively_once", "exactly_once")
        then = f"{guarantee} needs it: create it" if must_exist else "the broker makes it if it may"
        return Finding(f"sink {name}: topic {topic} does not exist; {then}", good=False)
    return Finding(f"sink {name}: topic {topic} has {len(sample.queues)} queues")


def check_plans(spark: SparkSession, pipeline: Pipeline, environment: Environment) -> list[Finding]:
    """Plan every query as `run` would. UsageError names the line of the text that Spark refuses."""
    findings = []
    source = pipeline.source
    with explained(environment, source.where, source.options):
        _make_reader(source, environment)
    for flow in build(spark, pipeline, environment):
        with explained(environment, flow.sink.where, flow.sink.options):
            if flow.rows.isStreaming:
                _check_streaming(flow)
            for column in flow.sink.partition_by:
                flow.rows[column]
            _make_writer(flow.sink, environment, flow.rows.schema, is_stream=flow.rows.isStreaming)
        findings.append(Finding(f"query {flow.name}: {flow.sink.format}, columns {', '.join(flow.rows.columns)}"))
    return findings


def _make_reader(source: Source, environment: Environment) -> None:
    """Make the reader of one of our formats as Spark does at the start, so that it refuses its options now."""
    if source.format in DATA_SOURCES:
        made = _data_source(source.format, source.options, environment)
        schema = cast("StructType", made.schema())
        _ = made.streamReader(schema) if source.is_stream else made.reader(schema)


def _make_writer(sink: Sink, environment: Environment, schema: StructType, *, is_stream: bool) -> None:
    if sink.format in DATA_SOURCES:
        made = _data_source(sink.format, sink.options, environment)
        _ = made.streamWriter(schema, sink.mode == "complete") if is_stream else made.writer(schema, False)


def _data_source(name: str, options: Options, environment: Environment) -> DataSource:
    module, kind = DATA_SOURCES[name]
    made: DataSource = getattr(import_module(module), kind)(CaseInsensitiveDict(options.filled(environment)))
    return made


def _check_streaming(flow: Flow) -> None:
    # Spark's own check before it starts a query: does this plan stream in this output mode?
    jvm: Any = flow.rows.sparkSession._jvm
    modes = jvm.org.apache.spark.sql.streaming.OutputMode
    mode = {"append": modes.Append, "complete": modes.Complete, "update": modes.Update}[flow.sink.mode]()
    checker = jvm.org.apache.spark.sql.catalyst.analysis.UnsupportedOperationChecker
    checker.checkForStreaming(flow.rows._jdf.queryExecution().analyzed(), mode)


def read_samples(
    spark: SparkSession, pipeline: Pipeline, environment: Environment, topics: list[TopicSample]
) -> Iterator[Sample]:
    """The newest rows through the real transform, route by route; bad rows are shown instead of ending the check."""
    source = pipeline.source
    options = source.options
    if source.format == "rocketmq":
        kept = {name.lower() for name in _BATCH_OPTIONS}
        values = {name: value for name, value in options.values.items() if name.lower() in kept}
        values |= {
            "subscribe": ",".join(sample.topic for sample in topics),
            "startingOffsets": offsets_option(topics, 1),
            "endingOffsets": offsets_option(topics, 2),
        }
        options = Options(values, dict.fromkeys(values, source.where))
    batch = replace(source, options=options, is_stream=False)
    bad = Sink("console", Options()) if source.body != "raw" else None
    twin = replace(pipeline, source=batch, on_error="skip", bad_rows=bad)
    for flow in build(spark, twin, environment, rows_max=SAMPLE_ROWS):
        with explained(environment, flow.sink.where):
            sample = _collect(flow.name, flow.rows, environment)
        if sample.rows or flow.name != BAD_ROWS:
            yield sample


def _collect(name: str, rows: DataFrame, environment: Environment) -> Sample:
    found = [[environment.hide(_cell(value)) for value in row] for row in rows.limit(SAMPLE_ROWS).collect()]
    schema = ", ".join(f"{field.name} {field.dataType.simpleString()}" for field in rows.schema.fields)
    return Sample(name, schema, rows.columns, found)


def _cell(value: object) -> str:
    if isinstance(value, bytes | bytearray):
        value = bytes(value).decode(errors="replace")
    text = "" if value is None else str(value)
    text = "".join(c if c.isprintable() else repr(c)[1:-1] for c in text[: 2 * _CELL_CHARS])
    return text if len(text) <= _CELL_CHARS else f"{text[: _CELL_CHARS - 3]}..."
