from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import replace
from pathlib import Path
from typing import Any
from zlib import crc32

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rocketlake.base.disk.memory import MemoryFiles
from rocketlake.base.errors import LinkError, RemoteError, RocketLakeError, UsageError
from rocketlake.client.errors import NoRoute
from rocketlake.client.producer.queue_choice import by_key
from rocketlake.codec import property_text
from rocketlake.codec.record_layout import BATCH_ENTRY_BYTES_MIN
from rocketlake.model.message import Message
from rocketlake.protocol.response_code import ResponseCode
from rocketlake.spark.sink.counts import Counts
from rocketlake.spark.sink.dead_letters import DeadLetter, write_file
from rocketlake.spark.sink.faults import Fault
from rocketlake.spark.sink.identity import TaskIdentity
from rocketlake.spark.sink.input_columns import COLUMNS, InputColumns
from rocketlake.spark.sink.options import parse_options
from rocketlake.spark.sink.sending import WriteFailed
from rocketlake.spark.sink.task import SinkTask
from tests.unit.spark.sink.fake_cluster import FakeCluster, queues_of, running

TYPES: dict[str, pa.DataType] = {
    "body": pa.binary(),
    "properties": pa.map_(pa.string(), pa.string()),
    "queueId": pa.int32(),
    "delayLevel": pa.int32(),
    "priority": pa.int32(),
    "deliverTimestamp": pa.timestamp("us", "UTC"),
}


IDENTITY = TaskIdentity("q", 7, 1)


def batch(**columns: list[Any]) -> pa.RecordBatch:
    arrays = [pa.array(values, TYPES.get(name, pa.string())) for name, values in columns.items()]
    return pa.record_batch(arrays, list(columns))


def bodies(first: int, count: int) -> list[bytes]:
    return [b"row %d" % number for number in range(first, first + count)]


class Sink:
    """A sink over a cluster that is none."""

    def __init__(self, cluster: FakeCluster | None = None, **options: str) -> None:
        self.cluster = cluster or FakeCluster({"T": queues_of("T"), "T__dlq": queues_of("T__dlq", 1)})
        given = {"namesrvAddr": "a:1", "topic": "T", "retryIntervalMs": "10"} | options
        self.options = parse_options({name: value for name, value in given.items() if value}, streaming=False)

    def write(self, *batches: pa.RecordBatch, identity: TaskIdentity = IDENTITY) -> Counts:
        columns = InputColumns({name: number for number, name in enumerate(batches[0].schema.names)})
        with running(self.cluster):
            return SinkTask(self.options, columns, identity, self.cluster).write(iter(batches))


def test_rows_become_messages_with_what_their_columns_say() -> None:
    sink = Sink()
    counts = sink.write(
        batch(
            body=[b"one", b"two"], tags=["TagA", None], keys=["k1 k2", ""], shardingKey=["s", None],
            properties=[[("color", "red"), ("UNIQ_KEY", "old"), ("empty", ""), ("gone", None), ("TAGS", "x")], None],
        )
    )  # fmt: skip
    one, two = sorted(sink.cluster.all_stored(), key=lambda message: message.body)
    assert one.properties.pop("UNIQ_KEY")[24:] == "00000000" and two.properties.pop("UNIQ_KEY")[24:] == "00000001"
    assert one.properties == {"TAGS": "TagA", "KEYS": "k1 k2", "__SHARDINGKEY": "s", "color": "red"}
    assert (two.body, two.properties) == (b"two", {})
    assert (counts.rows, counts.messages, counts.skipped) == (2, 2, 0)


def test_texts_are_bodies_too() -> None:
    sink = Sink()
    sink.write(pa.record_batch([pa.array(["é", "x"], pa.large_string())], ["body"]))
    assert [message.body for message in sink.cluster.all_stored()] == ["é".encode(), b"x"]


def test_blocks_of_rows_go_to_the_queues_by_turns_whatever_pieces_spark_hands_over() -> None:
    places = []
    for cuts in ([5000], [100, 2000, 2900]):
        sink = Sink(batchBytes="9k")
        first, parts = 0, []
        for count in cuts:
            parts.append(batch(body=bodies(first, count)))
            first += count
        sink.write(*parts)
        stored = sink.cluster.stored
        places.append({message.body: queue for queue, messages in stored.items() for message in messages})
        for messages in stored.values():
            numbers = [int(message.body.split()[1]) for message in messages]
            assert numbers == sorted(numbers), "rows keep their order in a queue"
    assert places[0] == places[1]
    assert Counter(queue.queue_id for queue in places[0].values()) == {0: 1928, 1: 1024, 2: 1024, 3: 1024}
    assert places[0][b"row 0"].queue_id == (7 + 1) % 4


def test_rows_with_one_sharding_key_go_where_javas_producers_send_them() -> None:
    sink = Sink()
    keys = [f"customer {number % 9}" for number in range(60)]
    sink.write(batch(body=bodies(0, 60), shardingKey=keys))
    for queue, messages in sink.cluster.stored.items():
        for message in messages:
            wanted = by_key(message.properties["__SHARDINGKEY"])(queues_of("T"), Message("T", b"x"))
            assert queue == wanted
        order = [int(message.body.split()[1]) for message in messages]
        assert order == sorted(order)


def test_a_row_may_name_its_queue_and_its_topic() -> None:
    queues = (*queues_of("T", 2), *queues_of("T", 2, "broker-b"))
    sink = Sink(FakeCluster({"T": queues, "U": queues_of("U", 1)}), topic="")
    sink.write(
        batch(
            body=[b"1", b"2", b"3"], topic=["T", "U", "T"],
            brokerName=["broker-b", None, "broker-a"], queueId=[1, None, 0],
        )
    )  # fmt: skip
    assert {str(queue): [m.body for m in got] for queue, got in sink.cluster.stored.items()} == {
        "T@broker-b:1": [b"1"], "U@broker-a:0": [b"2"], "T@broker-a:0": [b"3"],
    }  # fmt: skip


def test_delayed_rows_are_sent_one_by_one() -> None:
    sink = Sink()
    counts = sink.write(batch(body=[b"1", b"2", b"3"], delayLevel=[3, 0, None]))
    by_count = {outgoing.count: outgoing for _, outgoing in sink.cluster.requests}
    assert counts.messages == 3 and sorted(by_count) == [0, 2]
    assert b"DELAY\x013\x02" in by_count[0].properties


def test_rows_with_a_priority_are_sent_one_by_one() -> None:
    sink = Sink()
    counts = sink.write(batch(body=[b"1", b"2", b"3", b"4"], priority=[3, 0, None, None]))
    singly = [outgoing.properties for _, outgoing in sink.cluster.requests if outgoing.count == 0]
    assert counts.messages == 4 and [outgoing.count for _, outgoing in sink.cluster.requests if outgoing.count] == [2]
    assert {text.partition(b"_SYS_MSG_PRIORITY_\x01")[2][:2] for text in singly} == {b"0\x02", b"3\x02"}


@pytest.mark.parametrize("guarantee", ["effectively_once", "exactly_once"])
def test_a_priority_takes_no_part_in_a_sequence(guarantee: str) -> None:
    with pytest.raises(UsageError, match="'effectively_once' and 'exactly_once' take no priority"):
        Sink(deliveryGuarantee=guarantee, producerId="p", batchId="1").write(batch(body=[b"1"], priority=[1]))


# -- rows that make no message -----------------------------------------------------------------------------------------

BAD = {
    "no body": (batch(body=[None, b"good", b""]), "NO_BODY", "null or empty"),
    "long body": (batch(body=[bytes(2000), b"good"]), "BODY_TOO_LONG", "maxMessageBytes"),
    "long with its properties": (
        batch(body=[bytes(950), b"good"], keys=["k" * 80, "k"]), "BODY_TOO_LONG", "maxMessageBytes"),
    "separator": (batch(body=[b"x", b"good"], keys=["a\x01b", "c"]), "SEPARATOR", "\\\\x01"),
    "separator in a name": (
        batch(body=[b"x", b"good"], properties=[[("a\x02", "v")], [("b", "w")]]), "SEPARATOR", "\\\\x01"),
    "long properties": (batch(body=[b"x", b"good"], keys=["k" * 32_000, None]), "PROPERTIES_TOO_LONG", "32,000"),
    "no queue": (
        batch(body=[b"x", b"good"], brokerName=["broker-z", "broker-a"], queueId=[0, 0]), "NO_QUEUE", "no queue"),
    "half a queue": (batch(body=[b"x", b"good"], brokerName=[None, None], queueId=[0, None]), "NO_QUEUE", "no queue"),
    "time": (batch(body=[b"x", b"good"], deliverTimestamp=[5, None]), "DELIVER_TIMESTAMP", "is not built"),
    "priority": (batch(body=[b"x", b"good"], priority=[-1, None]), "PRIORITY", "from 0 to 2,147,483,647"),
    "priority and delay": (
        batch(body=[b"x", b"good"], priority=[0, 1], delayLevel=[3, 0]), "PRIORITY_COMBINED", "neither delayed"),
    "priority and order": (
        batch(body=[b"x", b"good"], priority=[0, 1], shardingKey=["a", ""]), "PRIORITY_COMBINED", "neither delayed"),
    "level": (batch(body=[b"x", b"good"], delayLevel=[19, 0]), "DELAY_LEVEL", "from 0"),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_an_invalid_row_fails_the_task_with_its_place_and_the_reason(name: str) -> None:
    rows, _fault, words = BAD[name]
    with pytest.raises(UsageError, match=rf"row q/7/1/0 \(.*{words}.*onInvalidRow.*") as error:
        Sink(maxMessageBytes="1k").write(rows)
    assert "[task 1 of batch 7, query q]" in str(error.value)


@pytest.mark.parametrize("name", BAD)
def test_invalid_rows_can_be_skipped_and_are_counted(name: str) -> None:
    rows, fault, _words = BAD[name]
    sink = Sink(maxMessageBytes="1k", onInvalidRow="skip")
    counts = sink.write(rows)
    assert [message.body for message in sink.cluster.all_stored()] == [b"good"]
    assert (counts.messages, counts.skipped, counts.faults) == (1, rows.num_rows - 1, {fault: rows.num_rows - 1})


@pytest.mark.parametrize("name", BAD)
def test_invalid_rows_can_go_to_a_topic_of_dead_letters(name: str) -> None:
    rows, fault, _words = BAD[name]
    sink = Sink(maxMessageBytes="1k", onInvalidRow="dlq")
    counts = sink.write(rows)
    (dead,) = [got for queue, got in sink.cluster.stored.items() if queue.topic == "T__dlq"]
    original = rows.column("body")[0].as_py() or b""
    room = 1024 - BATCH_ENTRY_BYTES_MIN - len(property_text.encode(dead[0].properties))
    assert dead[0].body == (original[:room] or b"-")
    assert dead[0].properties == {
        "RL_REASON": fault, "RL_POSITION": "q/7/1/0", "RL_BODY_BYTES": str(len(original)), "RL_TOPIC": "T",
    }  # fmt: skip
    assert counts.dead_letters == rows.num_rows - 1 and counts.messages == rows.num_rows


def test_dead_letters_can_go_to_a_folder_and_a_repeated_task_replaces_them(tmp_path: Path) -> None:
    for _ in range(2):
        sink = Sink(onInvalidRow="dlq", dlqPath=str(tmp_path / "dead"))
        counts = sink.write(batch(body=[None, b"good"]), batch(body=[b"x", b"y"], keys=["a", "b"]).slice(1))
        assert (counts.messages, counts.dead_letters) == (2, 1)
    (path,) = (tmp_path / "dead").iterdir()
    assert path.name == "dlq-q-7-1.parquet"
    (row,) = pq.read_table(path).to_pylist()
    assert (row["reason"], row["position"], row["topic"], row["body"]) == ("NO_BODY", "q/7/1/0", "T", b"")
    assert "null or empty" in row["detail"]


def test_dead_letters_in_a_folder_survive_a_power_cut() -> None:
    """F15: Spark notes the batch as done right after."""
    disk = MemoryFiles()
    path = Path("/shared/dead")
    for number in range(2):
        write_file(str(path), [DeadLetter(Fault.NO_BODY, number, "T", b"")], IDENTITY, disk)
        left = disk.power_cut()
        (name,) = left.list_dir(path)
        (row,) = pq.read_table(pa.BufferReader(left.read_bytes(path / name))).to_pylist()
        assert (name, row["position"]) == ("dlq-q-7-1.parquet", f"q/7/1/{number}")


def test_a_topic_that_is_none_is_a_fault_of_its_row_but_a_missing_one_fails_the_task() -> None:
    sink = Sink(FakeCluster({"U": queues_of("U", 1)}), topic="", onInvalidRow="skip")
    counts = sink.write(batch(body=[b"1", b"2", b"3", b"4"], topic=[None, "bad name", "SCHEDULE_TOPIC_XXXX", "U"]))
    assert (counts.messages, counts.faults) == (1, {"NO_TOPIC": 3})
    with pytest.raises(NoRoute, match="'Missing'"):
        Sink(FakeCluster({}), topic="Missing").write(batch(body=[b"1"]))


# -- finding the queues ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "away", [LinkError("no name server answers"), NoRoute("T", ["a:1"]), RemoteError("busy", code=2)], ids=repr
)
def test_a_route_that_cannot_be_found_is_waited_for(away: RocketLakeError) -> None:
    """S5: the name server, or the broker, restarts while a task begins."""
    cluster = FakeCluster({"T": queues_of("T", 1)}, away=[away] * 6)
    assert Sink(cluster, retryIntervalMs="100").write(batch(body=[b"x"])).messages == 1
    assert cluster.slept == [0.1, 0.2, 0.4, 0.8, 1.6, 2.0]


@pytest.mark.parametrize(
    ("away", "timeout_ms", "seconds"),
    [(LinkError("gone"), 60_000, 60), (NoRoute("T", ["a:1"]), 60_000, 30), (NoRoute("T", ["a:1"]), 5000, 5)],
    ids=str,
)
def test_a_route_is_not_waited_for_for_ever(away: RocketLakeError, timeout_ms: int, seconds: int) -> None:
    cluster = FakeCluster({"T": queues_of("T", 1)}, away=[away] * 1000)
    with pytest.raises(type(away)):
        Sink(cluster, deliveryTimeoutMs=str(timeout_ms)).write(batch(body=[b"x"]))
    assert seconds - 2.1 < cluster.now <= seconds


@pytest.mark.parametrize(("guarantee", "helps"), [("at_least_once", True), ("effectively_once", False)])
def test_the_cure_of_a_missing_topic_is_one_that_helps(guarantee: str, helps: bool) -> None:
    with pytest.raises(NoRoute) as missing:
        Sink(FakeCluster({}), topic="Missing", deliveryGuarantee=guarantee).write(batch(body=[b"1"]))
    hint = missing.value.hint
    assert ("or set autoCreateTopicEnable=true" in hint) is helps
    assert "rocketlake topic create Missing" in hint and "its broker is away" in hint


def test_the_cure_of_a_topic_without_write_permission_is_its_own() -> None:
    cluster = FakeCluster({}, away=[NoRoute("T", ["a:1"], is_read_only=True)] * 1000)
    with pytest.raises(NoRoute, match="it has no write permission") as closed:
        Sink(cluster).write(batch(body=[b"1"]))
    assert "topic alter T --perm rw" in closed.value.hint


# -- effectively once --------------------------------------------------------------------------------------------------


def test_a_repeated_task_sends_equal_requests() -> None:
    attempts = []
    for size in ("100", "3000"):
        sink = Sink(deliveryGuarantee="effectively_once", batchBytes=size)
        sink.write(batch(body=bodies(0, 3000), keys=["mine"] * 3000))
        attempts.append(sink.cluster)
    for queue, messages in attempts[0].stored.items():
        again = attempts[1].stored[queue]
        for message in (*messages, *again):
            del message.properties["__RL_SEQ"]
        assert messages == again, "bodies, keys and unique keys do not depend on how requests are cut"
    first = attempts[0].stored[queues_of("T")[0]][0]
    assert first.properties["KEYS"] == "mine q/7/1/0"


def test_sequence_numbers_count_from_zero_in_each_queue_without_gaps() -> None:
    sink = Sink(deliveryGuarantee="effectively_once", batchBytes="5k")
    sink.write(batch(body=bodies(0, 3000)), batch(body=bodies(3000, 3000)))
    reached: Counter[Any] = Counter()
    sent: dict[Any, bytes] = defaultdict(bytes)
    for queue, outgoing in sink.cluster.requests:
        (text,) = [pair[9:] for pair in outgoing.properties.decode().split("\x02") if pair.startswith("__RL_SEQ\x01")]
        query, number, partition, sequence, layout, count, before, after = text.split("/")
        assert (query, number, partition) == ("q", "7", "1") and len(layout) == 8
        assert (int(sequence), int(count)) == (reached[queue], outgoing.count)
        reached[queue] += outgoing.count
        assert before == f"{crc32(sent[queue]):08x}"
        sent[queue] += outgoing.body
        assert after == f"{crc32(sent[queue]):08x}", "of all entries of the queue, however they are cut"
    assert sum(reached.values()) == 6000


def test_other_queues_make_another_layout() -> None:
    layouts = set()
    for count in (2, 3):
        sink = Sink(FakeCluster({"T": queues_of("T", count)}), deliveryGuarantee="effectively_once")
        sink.write(batch(body=[b"x"]))
        layouts.add(sink.cluster.requests[0][1].properties.decode().split("/")[4])
    assert len(layouts) == 2


def test_a_delayed_row_takes_no_part() -> None:
    with pytest.raises(UsageError, match="'effectively_once' and 'exactly_once' take no delayed message"):
        Sink(deliveryGuarantee="effectively_once").write(batch(body=[b"1"], delayLevel=[1]))


def test_at_least_once_has_unique_keys_of_its_own_for_each_attempt() -> None:
    keys = set()
    for _ in range(2):
        sink = Sink()
        sink.write(batch(body=[b"x"]))
        keys.add(sink.cluster.all_stored()[0].properties["UNIQ_KEY"])
    assert len(keys) == 2 and all(len(key) == 32 for key in keys)


# -- the way to the brokers --------------------------------------------------------------------------------------------


def test_requests_are_bounded_and_one_for_a_queue_at_a_time() -> None:
    cluster = FakeCluster({"T": queues_of("T", 8)})
    sink = Sink(cluster, batchBytes="20k", inFlight="3")
    sink.write(*(batch(body=[bytes(100) + b"x"] * 4000) for _ in range(4)))
    assert cluster.overlaps == 0
    assert cluster.under_way_max <= 3
    assert max(len(outgoing.body) for _, outgoing in cluster.requests) <= 20 * 1024


def test_a_busy_broker_is_given_time_and_nothing_is_lost() -> None:
    refusals = iter([ResponseCode.SYSTEM_BUSY, LinkError("gone"), ResponseCode.SYSTEM_BUSY] + [None] * 1000)
    cluster = FakeCluster({"T": queues_of("T")}, lambda queue, outgoing: next(refusals))
    counts = Sink(cluster).write(batch(body=bodies(0, 3000)))
    assert (counts.messages, counts.retries) == (3000, 3)
    assert len(cluster.all_stored()) == 3000 and len(cluster.slept) == 3


def test_pauses_grow_up_to_five_seconds() -> None:
    cluster = FakeCluster({"T": queues_of("T", 1)}, lambda queue, outgoing: ResponseCode.SYSTEM_BUSY)
    with pytest.raises(WriteFailed):
        Sink(cluster, retryIntervalMs="1000", deliveryTimeoutMs="60000").write(batch(body=[b"x"]))
    assert 0.5 <= cluster.slept[0] <= 1 and 2.5 <= max(cluster.slept) <= 5 and sum(cluster.slept) <= 60


def test_a_broker_that_stays_away_is_left_for_another_one_unless_rows_have_their_queue() -> None:
    queues = (*queues_of("T", 2), *queues_of("T", 2, "broker-b"))

    def dead(queue: Any, outgoing: Any) -> BaseException | None:
        return LinkError("down") if queue.broker_name == "broker-a" else None

    cluster = FakeCluster({"T": queues}, dead)
    counts = Sink(cluster).write(batch(body=bodies(0, 4096)))
    assert counts.messages == 4096 and {queue.broker_name for queue in cluster.stored} == {"broker-b"}
    for options in ({"deliveryGuarantee": "effectively_once"}, {}):
        columns = {} if options else {"shardingKey": [f"k{number}" for number in range(50)]}
        cluster = FakeCluster({"T": queues}, dead)
        with pytest.raises(WriteFailed):
            Sink(cluster, deliveryTimeoutMs="1000", **options).write(
                batch(body=bodies(0, 50) * 40 if not columns else bodies(0, 50), **columns)
            )


def test_a_task_that_could_not_send_all_fails_and_says_what_is_stored() -> None:
    cluster = FakeCluster({"T": queues_of("T")}, lambda queue, outgoing: 13 if queue.queue_id == 2 else None)
    with pytest.raises(WriteFailed, match=r"1024 messages to T@broker-a:2 were not stored after 1 tries") as error:
        Sink(cluster, batchBytes="1m").write(batch(body=bodies(0, 5000)))
    assert "MESSAGE_ILLEGAL: because" in str(error.value) and "maxMessageSize" in error.value.hint
    assert "[task 1 of batch 7, query q]" in str(error.value)


def test_a_flush_that_took_too_long_is_counted_or_tried_again() -> None:
    answers = iter([ResponseCode.FLUSH_DISK_TIMEOUT] + [None] * 10)
    counts = Sink(FakeCluster({"T": queues_of("T", 1)}, lambda q, o: next(answers))).write(batch(body=[b"x"]))
    assert (counts.messages, counts.unsure, counts.retries) == (1, 1, 0)
    answers = iter([ResponseCode.FLUSH_DISK_TIMEOUT] + [None] * 10)
    cluster = FakeCluster({"T": queues_of("T", 1)}, lambda q, o: next(answers))
    counts = Sink(cluster, deliveryGuarantee="effectively_once").write(batch(body=[b"x"]))
    assert (counts.messages, counts.unsure, counts.retries) == (1, 0, 1)


def test_what_the_broker_knew_is_counted() -> None:
    cluster = replace(FakeCluster({"T": queues_of("T", 1)}), known=2)
    assert Sink(cluster, deliveryGuarantee="effectively_once").write(batch(body=[b"x", b"y"])).replayed == 2


def test_a_task_that_ends_before_what_is_stored_fails() -> None:
    """Its broker compares up to where it stands; what ends before is seen here."""
    for stored, fails in ((2, False), (3, True)):
        cluster = replace(FakeCluster({"T": queues_of("T", 1)}), known=2, next_number=stored)
        sink = Sink(cluster, deliveryGuarantee="effectively_once")
        if not fails:
            assert sink.write(batch(body=[b"x", b"y"])).messages == 2
            continue
        with pytest.raises(WriteFailed, match=r"3 rows of this batch were stored in T@broker-a:0 before, now .* 2"):
            sink.write(batch(body=[b"x", b"y"]))


def test_every_column_of_the_sink_is_used_here() -> None:
    used = {name for rows, _, _ in BAD.values() for name in rows.schema.names}
    assert used | {"topic", "tags", "shardingKey"} == set(COLUMNS)
