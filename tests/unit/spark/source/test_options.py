from __future__ import annotations

import pytest

from rocketlake.base.errors import UsageError
from rocketlake.spark.source.options import parse_options
from rocketlake.spark.source.positions import Kind

NEEDED = {"namesrvAddr": "127.0.0.1:9876", "subscribe": "orders"}


def parse(streaming: bool = True, **given: str) -> object:
    return parse_options(NEEDED | {"startingOffsets": "earliest"} | given, streaming=streaming)


def test_names_are_case_insensitive_as_spark_hands_them_over() -> None:
    options = parse_options({"NAMESRVADDR": "h:1", "Subscribe": "b, a"}, streaming=False)
    assert (options.namesrv, options.topics.names) == ("h:1", ("a", "b"))


def test_the_old_connectors_name_for_the_name_server_is_taken() -> None:
    assert parse_options({"nameServer": "h:1;g:2", "subscribe": "a"}, streaming=False).namesrv == "h:1;g:2"


@pytest.mark.parametrize(
    ("given", "named", "cure"),
    [
        ({"maxOffsetPerTrigger": "5"}, "maxOffsetPerTrigger", "maxOffsetsPerTrigger"),
        ({"kafka.bootstrap.servers": "h:1"}, "kafka.bootstrap.servers", "namesrvAddr"),
        ({"kafka.anything": "x"}, "kafka.anything", "remove it"),
        ({"subscribePattern": "a.*"}, "'subscribe' and 'subscribePattern'", "keep one"),
        ({"assign": '{"orders": {"b": [0]}}'}, "'subscribe' and 'assign'", "keep one"),
        ({"includeSystemTopics": "true"}, "includeSystemTopics", "remove it"),
        ({"startingTimestamp": "2025"}, "'2025'", "ISO-8601"),
        ({"startingTimestamp": "yesterday"}, "yesterday", "ISO-8601"),
        ({"startingOffsetsByTimestamp": "1735689600000"}, "startingOffsetsByTimestamp", "broker"),
        ({"startingOffsetsByTimestamp": '{"orders": {"b": {"0": "x"}}}'}, "'x'", "ISO-8601"),
        ({"startingOffsetsByTimestampStrategy": "newest"}, "newest", "latest, error"),
        ({"endingOffsetsByTimestampStrategy": "latest"}, "endingOffsetsByTimestampStrategy", "queue's end"),
        ({"startingOffsets": "group"}, "group", "startingGroup"),
        ({"startingOffsets": "group", "startingGroup": "g"}, "group", "offsetStore"),
        ({"endingOffsets": "group", "consumerGroup": "g"}, "group", "endingTimestamp"),
        ({"endingOffsets": "earliest"}, "earliest", "latest (-1)"),
        ({"endingOffsets": '{"orders": -2}'}, "earliest", "latest (-1)"),
        ({"endingGroup": "g"}, "endingGroup", "remove it"),
        ({"maxBytesPerTrigger": "64q"}, "64q", "64m"),
        ({"maxTriggerDelay": "soon", "minOffsetsPerTrigger": "5"}, "soon", "15m"),
        ({"maxTriggerDelay": "5m"}, "maxTriggerDelay", "set both"),
        ({"keyIndex": "true"}, "keyIndex", "remove it"),
        ({"minOffsetsPerTrigger": "9", "maxOffsetsPerTrigger": "5"}, "minOffsetsPerTrigger", "above"),
        ({"tags": "A", "filter.sql92": "a = 1"}, "'tags' and 'filter.sql92'", "TAGS"),
        ({"filter.sql92": "a = = 1"}, "a = = 1", ""),
        ({"lossTable": "hdfs://b/x"}, "lossTable", "mounted"),
        ({"offsetStore": "relative"}, "offsetStore", "absolute"),
        ({"client.secretKey": "s3cr3t"}, "client.secretKey", "never stand in an option"),
        ({"secretKey": "s3cr3t"}, "secretKey", "never stand in an option"),
        ({"includeHeaders": "true"}, "includeHeaders", "includeProperties"),
        ({"zzz": "1"}, "zzz", "known options"),
        ({"failOnDataLoss": "maybe"}, "failOnDataLoss", "true or false"),
        ({"maxOffsetsPerTrigger": "0"}, "maxOffsetsPerTrigger", "from 1"),
        ({"pullBatchSize": "5000"}, "pullBatchSize", "1024"),
        ({"pullTimeoutMs": "-1"}, "pullTimeoutMs", "from 100"),
        ({"startingOffsets": "oldest"}, "oldest", "earliest"),
        ({"startingOffsets": '{"payments": "earliest"}'}, "payments", "same topics"),
        ({"startingOffsets": '{"orders": {"b": {"0": -3}}}'}, "-3", "earliest"),
        ({"startingOffsets": '{"orders": {"b": {"zero": 1}}}'}, "zero", "broker"),
        ({"startingOffsets": '{"orders": {"b": {"0": true}}}'}, "True", "earliest"),
        ({"namesrvAddr": "nowhere"}, "nowhere", "127.0.0.1:9876"),
        ({"namesrvAddr": ""}, "namesrvAddr", "127.0.0.1:9876"),
        ({"subscribe": " , "}, "subscribe", "orders"),
        ({"subscribe": "../etc"}, "../etc", ""),
        ({"consumerGroup": "a b"}, "a b", ""),
    ],
)
def test_an_error_names_the_option_its_value_and_the_cure(given: dict[str, str], named: str, cure: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse(**given)
    assert named in str(caught.value)
    assert cure in str(caught.value)
    assert "s3cr3t" not in str(caught.value)


@pytest.mark.parametrize(
    "name",
    [
        "maxOffsetsPerTrigger",
        "maxBytesPerTrigger",
        "minOffsetsPerTrigger",
        "maxTriggerDelay",
        "consumerGroup",
        "offsetStore",
    ],
)
def test_options_of_a_stream_are_refused_in_a_batch_read(name: str) -> None:
    with pytest.raises(UsageError, match=name):
        parse(streaming=False, **{name: "5"})


def test_a_batch_read_cannot_start_at_latest() -> None:
    with pytest.raises(UsageError, match="latest"):
        parse(streaming=False, startingOffsets="latest")


@pytest.mark.parametrize("latest", ["latest", '{"orders": "latest"}', '{"orders": {"b": {"0": -1, "1": 5}}}'])
def test_a_stream_that_starts_at_latest_must_have_a_place_to_remember_it(latest: str) -> None:
    with pytest.raises(UsageError, match="offsetStore") as caught:
        parse(startingOffsets=latest)
    assert "consumerGroup" in str(caught.value)
    parse(startingOffsets=latest, consumerGroup="g")
    parse(startingOffsets=latest, offsetStore="/tmp/x")


def test_a_stream_starts_at_latest_unless_told_otherwise() -> None:
    options = parse_options(NEEDED | {"consumerGroup": "g"}, streaming=True)
    assert options.starting.uses(Kind.LATEST)
    assert parse_options(NEEDED, streaming=False).starting.uses(Kind.EARLIEST)


def test_one_option_in_two_spellings_must_agree() -> None:
    with pytest.raises(UsageError, match="twice"):
        parse_options(NEEDED | {"nameServer": "other:1"}, streaming=False)


def test_sizes_and_times_are_read_with_their_units() -> None:
    options = parse_options(
        NEEDED
        | {"consumerGroup": "g", "maxBytesPerTrigger": "64m", "maxBytesPerPartition": "1 GiB"}
        | {"minOffsetsPerTrigger": "5", "maxTriggerDelay": "90s"},
        streaming=True,
    )
    assert (options.max_bytes_per_trigger, options.max_bytes_per_partition) == (64 << 20, 1 << 30)
    assert options.max_trigger_delay_ms == 90_000
