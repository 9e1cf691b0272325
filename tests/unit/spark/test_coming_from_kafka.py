"""The guide for people who come from Kafka names options that there are, and each of Kafka's is answered."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from rocketlake.base.errors import UsageError
from rocketlake.spark.schema import COLUMNS
from rocketlake.spark.sink.options import NAMES as SINK
from rocketlake.spark.source.option_table import NAMES as SOURCE

PAGE = (Path(__file__).parents[3] / "docs" / "how-to" / "coming_from_kafka.md").read_text()
KAFKA = [
    "kafka.bootstrap.servers",
    "subscribe",
    "subscribePattern",
    "assign",
    "startingOffsets",
    "endingOffsets",
    "startingTimestamp",
    "endingTimestamp",
    "startingOffsetsByTimestamp",
    "endingOffsetsByTimestamp",
    "startingOffsetsByTimestampStrategy",
    "failOnDataLoss",
    "maxOffsetsPerTrigger",
    "minOffsetsPerTrigger",
    "maxTriggerDelay",
    "minPartitions",
    "maxRecordsPerPartition",
    "kafka.group.id",
    "groupIdPrefix",
    "includeHeaders",
    "kafkaConsumer.pollTimeoutMs",
    "fetchOffset.numRetries",
    "fetchOffset.retryIntervalMs",
]


def rows(section: str) -> list[list[str]]:
    text = PAGE.split(f"## {section}\n", 1)[1].split("\n## ", 1)[0]
    return [[cell.strip() for cell in line.split("|")[1:-1]] for line in text.splitlines() if line.startswith("| `")]


def test_every_option_of_kafka_has_its_row() -> None:
    assert [row[0].strip("`") for row in rows("Reading, option by option")] == KAFKA


@pytest.mark.parametrize("name", KAFKA)
def test_every_option_of_kafka_is_taken_or_refused_with_a_hint(name: str) -> None:
    try:
        SOURCE.given({name: "x"})
    except UsageError as refused:
        assert refused.hint
        assert not refused.hint.startswith("known options")


def test_the_options_named_are_there() -> None:
    for _, here, _ in rows("Reading, option by option"):
        assert here.strip("`") in SOURCE.descriptions
    for _, here, _ in rows("Writing, option by option")[:2]:
        assert here.strip("`") in SINK.descriptions
    known = {*SOURCE.descriptions, *SINK.descriptions}
    better = PAGE.split("## What is better\n", 1)[1]
    named = set(re.findall(r"`([a-z][A-Za-z]+[A-Z][A-Za-z]+|tags|filter\.sql92)`", better))
    assert named <= known
    assert len(named) > 4


def test_the_columns_named_are_there() -> None:
    for _, here in rows("Columns"):
        assert set(re.findall(r"`(\w+)`", here)) <= set(COLUMNS)
