from __future__ import annotations

from dataclasses import replace

import pytest

from rocketlake.base.errors import RocketLakeError, UsageError
from rocketlake.spark.sink.options import SinkOptions, parse_options

BASE = {"namesrvAddr": "127.0.0.1:9876", "topic": "T"}
EXACT = {"deliveryGuarantee": "exactly_once", "producerId": "p", "batchId": "1"}


def parse(*, streaming: bool = False, **options: str) -> SinkOptions:
    return parse_options(BASE | options, streaming=streaming)


def test_defaults() -> None:
    assert parse() == SinkOptions(
        namesrv="127.0.0.1:9876", topic="T", effectively_once=False, producer_id="", batch_id=0, on_invalid_row="fail",
        dlq_topic="", dlq_path="", batch_bytes=256 * 1024, in_flight=4, message_bytes_max=4 << 20,
        send_timeout_ms=10_000, delivery_timeout_ms=120_000, retry_interval_ms=100, progress_path="",
    )  # fmt: skip


def test_what_spark_adds_is_passed_over_and_names_are_read_in_any_case() -> None:
    options = {"NAMESERVER": "a:1", "topic": "T", "checkpointLocation": "/x", "queryName": "q", "INFLIGHT": "2"}
    assert parse_options(options, streaming=True) == replace(parse(), namesrv="a:1", in_flight=2)


def test_dead_letters_go_to_a_topic_named_after_the_topic_or_to_a_folder() -> None:
    assert parse(onInvalidRow="dlq").dlq_topic == "T__dlq"
    assert parse(onInvalidRow="dlq", dlqTopic="Bad").dlq_topic == "Bad"
    folder = parse(onInvalidRow="dlq", dlqPath="/tmp/bad")
    assert (folder.dlq_topic, folder.dlq_path) == ("", "/tmp/bad")


def test_a_repeatable_batch_write_has_a_name_and_a_number() -> None:
    options = parse(producerId="orders.1", batchId="17", deliveryGuarantee="effectively_once")
    assert (options.producer_id, options.batch_id, options.effectively_once) == ("orders.1", 17, True)


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"deliveryGuarantee": "exactly_once"}, "has no name.*Cure: give 'producerId' and 'batchId'"),
        ({**EXACT, "topic": ""}, "needs a topic for its decisions.*'decisionTopic' or 'topic'"),
        ({**EXACT, "decisionTopic": "T"}, "'decisionTopic' names a topic of rows"),
        ({**EXACT, "decisionTopic": "T__dlq", "onInvalidRow": "dlq"}, "'decisionTopic' names a topic of rows"),
        ({**EXACT, "onInvalidRow": "dlq", "dlqPath": "/x"}, "files take no part.*give 'dlqTopic'"),
        ({**EXACT, "batchTimeoutMs": "10"}, "from 1000 to"),
        ({"decisionTopic": "D"}, "'decisionTopic' is given without deliveryGuarantee = exactly_once"),
        ({"batchTimeoutMs": "5000"}, "'batchTimeoutMs' is given without"),
        ({"deliveryGuarantee": "at_most_once"}, "'deliveryGuarantee' is 'at_most_once'.*one of at_least_once"),
        ({"subscribe": "T"}, "option 'subscribe' is not known.*write to in 'topic'"),
        ({"format": "json"}, "to_json"),
        ({"kafka.bootstrap.servers": "x"}, "namesrvAddr"),
        ({"tpic": "T"}, "did you mean 'topic'"),
        ({"topic": "a b"}, "a b"),
        ({"topic": "SCHEDULE_TOPIC_XXXX"}, "a topic of the broker's own"),
        ({"onInvalidRow": "drop"}, "one of fail, skip, dlq"),
        ({"dlqTopic": "Bad"}, "without onInvalidRow = dlq"),
        ({"onInvalidRow": "dlq", "dlqTopic": "T"}, "the topic of good rows"),
        ({"onInvalidRow": "dlq", "dlqTopic": "B", "dlqPath": "/x"}, "both given"),
        ({"onInvalidRow": "dlq", "topic": ""}, "give 'dlqTopic', 'dlqPath' or 'topic'"),
        ({"onInvalidRow": "dlq", "dlqPath": "hdfs://x/bad"}, "'dlqPath'.*another file system"),
        ({"progressPath": "hdfs:/x/counts"}, "'progressPath'.*another file system"),
        ({"producerId": "p"}, "belong together"),
        ({"batchId": "1"}, "belong together"),
        ({"producerId": "p/q", "batchId": "1"}, "letters, digits"),
        ({"batchBytes": "64m"}, "give 1 to"),
        ({"inFlight": "0"}, "from 1 to 256"),
        ({"namesrvAddr": "nowhere"}, "not host:port"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused_with_a_cure(options: dict[str, str], why: str) -> None:
    with pytest.raises(RocketLakeError, match=why):
        parse(**options)


def test_a_stream_is_known_by_its_query() -> None:
    with pytest.raises(UsageError, match=r"for batch writes.*query id"):
        parse(streaming=True, producerId="p", batchId="1")


def test_exactly_once_needs_a_checkpoint_that_is_found_again() -> None:
    with pytest.raises(UsageError, match=r"no checkpoint that its next driver would find.*'checkpointLocation'"):
        parse(streaming=True, deliveryGuarantee="exactly_once")
    options = parse(streaming=True, deliveryGuarantee="exactly_once", checkpointLocation="/c")
    assert (options.exactly_once, options.decision_topic, options.batch_timeout_ms) == (True, "T__decisions", 3_600_000)
    assert parse(streaming=True, deliveryGuarantee="exactly_once", queryName="q", decisionTopic="D").is_repeatable
