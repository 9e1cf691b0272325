from __future__ import annotations

import pytest

from rocketlake.base.errors import UsageError
from rocketlake.spark.source.options import parse_options

NEEDED = {"namesrvAddr": "127.0.0.1:9876", "subscribe": "orders"}


def parse(streaming: bool = True, **given: str) -> object:
    return parse_options(NEEDED | {"startingOffsets": "earliest"} | given, streaming=streaming)


def test_names_are_case_insensitive_as_spark_hands_them_over() -> None:
    options = parse_options({"NAMESRVADDR": "h:1", "Subscribe": "b, a"}, streaming=False)
    assert (options.namesrv, options.topics) == ("h:1", ("a", "b"))


def test_the_old_connectors_name_for_the_name_server_is_taken() -> None:
    assert parse_options({"nameServer": "h:1;g:2", "subscribe": "a"}, streaming=False).namesrv == "h:1;g:2"


@pytest.mark.parametrize(
    ("given", "named", "cure"),
    [
        ({"maxOffsetPerTrigger": "5"}, "maxOffsetPerTrigger", "maxOffsetsPerTrigger"),
        ({"kafka.bootstrap.servers": "h:1"}, "kafka.bootstrap.servers", "namesrvAddr"),
        ({"kafka.anything": "x"}, "kafka.anything", "remove it"),
        ({"subscribePattern": "a.*"}, "subscribePattern", "subscribe"),
        ({"startingTimestamp": "1"}, "startingTimestamp", "startingOffsets"),
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
        ({"endingOffsets": "latest"}, "endingOffsets", "remove it"),
    ],
)
def test_an_error_names_the_option_its_value_and_the_cure(given: dict[str, str], named: str, cure: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse(**given)
    assert named in str(caught.value)
    assert cure in str(caught.value)


@pytest.mark.parametrize("name", ["maxOffsetsPerTrigger", "consumerGroup", "offsetStore"])
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
    assert options.starting.mentions("latest")
    assert parse_options(NEEDED, streaming=False).starting.mentions("earliest")


def test_one_option_in_two_spellings_must_agree() -> None:
    with pytest.raises(UsageError, match="twice"):
        parse_options(NEEDED | {"nameServer": "other:1"}, streaming=False)
