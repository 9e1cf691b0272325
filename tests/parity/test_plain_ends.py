"""Half messages and ends of transactions in runs against the ordinary path: the same traffic has the same effects.

Two brokers in memory get the same chunks, one of them serves every request in the ordinary way (see worlds.py). Ends
name half messages by their places, so each chunk is made of the answers to those before.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rocketlake.base.disk.faulty import Fault
from rocketlake.broker.transaction.ledger import HalfLedger, Standing
from rocketlake.codec.record import decode_records
from rocketlake.model import property_names as names
from rocketlake.model.message_id import parse_offset_message_id
from rocketlake.model.positions import PhysicalOffset, QueueOffset
from rocketlake.model.sys_flag import TRANSACTION_COMMIT, TRANSACTION_PREPARED, TRANSACTION_ROLLBACK
from rocketlake.model.topic import HALF_TOPIC, OP_TOPIC, TopicConfig
from rocketlake.net.link import Link
from rocketlake.protocol.command import FLAG_ONEWAY, Codec, Command
from rocketlake.protocol.frame import encode_command
from rocketlake.protocol.request_code import RequestCode
from rocketlake.protocol.response_code import ResponseCode
from rocketlake.store.disk_wait import NotInMemory
from tests.parity.pairs import Pair
from tests.parity.worlds import World, run

if os.environ.get("ROCKETLAKE_PURE") == "1":
    pytest.skip("kernels have a compiled form only", allow_module_level=True)

GROUP = "pg"
KEY = "the unique key of the message"
SETTINGS = {
    "transactionOpMsgMaxSize": "9",
    "transactionOpBatchInterval": "700",
    "transactionTimeOut": "500",
    "transactionCheckInterval": "1000",
    "transactionCheckMax": "2",
}
"""Op messages of a few ends, so that some are due inside of a chunk; walks that put half messages back soon."""

Fields = dict[str, str]


@dataclass
class Half:
    """A half message that was answered."""

    key: str
    physical_offset: int
    queue_offset: int

    def end(self, outcome: int = TRANSACTION_COMMIT) -> Fields:
        return {
            "producerGroup": GROUP, "tranStateTableOffset": str(self.queue_offset),
            "commitLogOffset": str(self.physical_offset), "commitOrRollback": str(outcome),
            "fromTransactionCheck": "false", "msgId": self.key, "transactionId": self.key,
        }  # fmt: skip


def frame(code: int, fields: Fields, *, opaque: int, codec: Codec, flag: int = 0, body: bytes = b"") -> bytes:
    wanted = {name: value for name, value in fields.items() if value != "absent"}
    command = Command(code, opaque=opaque, flag=flag, language="JAVA", version=433, fields=wanted, body=body)
    return b"".join(bytes(part) for part in encode_command(command, codec))


@dataclass
class Traffic:
    """Makes chunks for both brokers, and knows what they have answered to sends."""

    now_ms: Callable[[], int]
    halves: list[Half] = field(default_factory=list)
    opaque: int = 0
    keys: dict[int, str] = field(default_factory=dict)

    def send(
        self,
        pairs: dict[str, str],
        *,
        topic: str = "T",
        queue: int = 1,
        body: bytes = b"body",
        codec: Codec = Codec.ROCKETMQ,
        sys_flag: int = 0,
        flag: int = 0,
    ) -> bytes:
        self.opaque += 1
        key = f"AC{self.opaque:06X}"
        self.keys[self.opaque] = key
        given = {name: key if value == KEY else value for name, value in pairs.items()}
        text = "".join(f"{name}\x01{value}\x02" for name, value in ({names.UNIQUE_KEY: key} | given).items())
        fields = {
            "a": GROUP, "b": topic, "c": "TBW102", "d": "4", "e": str(queue), "f": str(sys_flag),
            "g": str(self.now_ms()), "h": "3", "i": text, "j": "0", "k": "false", "m": "false",
        }  # fmt: skip
        return frame(RequestCode.SEND_MESSAGE_V2, fields, opaque=self.opaque, codec=codec, flag=flag, body=body)

    def half(self, pairs: dict[str, str] | None = None, **options: Any) -> bytes:
        marks = {names.TRANSACTION_PREPARED: "true", names.PRODUCER_GROUP: GROUP}
        return self.send(marks | (pairs or {}), **({"sys_flag": TRANSACTION_PREPARED} | options))

    def end(self, fields: Fields, *, codec: Codec = Codec.ROCKETMQ, flag: int = FLAG_ONEWAY) -> bytes:
        self.opaque += 1
        return frame(RequestCode.END_TRANSACTION, fields, opaque=self.opaque, codec=codec, flag=flag)

    def learn(self, answers: list[Command]) -> None:
        """Take the places of half messages from these answers."""
        for answer in answers:
            if answer.code == ResponseCode.SUCCESS and answer.fields and answer.opaque in self.keys:
                offset = parse_offset_message_id(answer.fields["msgId"])[2]
                self.halves.append(Half(self.keys[answer.opaque], offset, int(answer.fields["queueOffset"])))


class Ends(Pair[Traffic]):
    """Both brokers."""

    def __init__(self, *, sync: bool = False, changes: dict[str, str] | None = None) -> None:
        super().__init__(Traffic, sync=sync)
        self.each(lambda world: world.broker.config.update(SETTINGS | (changes or {})))

    def first_chunk(self) -> bytes:
        return self.traffic.send({})

    def noted(self, world: World) -> object:
        """What becomes of half messages."""
        known, ops = ledger(world), world.broker.transactions.check._ops
        return known.position, bytes(known._standings), known._places, [*ops._waiting], ops.room_bytes

    def messages(self, topic: str, queue_id: int = 0) -> int:
        queue = self.fast.broker.store.queues.find(topic, queue_id)
        return queue.max_offset if queue is not None else 0


def ledger(world: World) -> HalfLedger:
    return world.broker.transactions.check._ledger


# -- any traffic -------------------------------------------------------------------------------------------------------

Item = Callable[[Traffic], bytes]
codecs = st.sampled_from(Codec)
half_pairs = st.one_of(
    st.just({}),
    st.dictionaries(
        st.sampled_from(["TAGS", "KEYS", "color", "WAIT"]), st.sampled_from(["a", "k1 k2", "true"]), max_size=3
    ),
    st.sampled_from(
        [
            {"WAIT": "false"}, {"DELAY": "2"}, {"TRAN_MSG": "TRUE"}, {"TRAN_MSG": "false"}, {"PGROUP": "other"},
            {"CHECK_IMMUNITY_TIME_IN_SECONDS": "1"}, {"TRANSACTION_CHECK_TIMES": "3"}, {"REAL_TOPIC": "Many"},
            {"TRAN_PREPARED_QUEUE_OFFSET": "0"}, {"__transactionId__": "x"}, {"__transactionId__": KEY},
            {"CLUSTER": "mine"}, {"a": "é"},
            {"TIMER_DELAY_SEC": "1"}, {"INNER_NUM": "1"}, {"__RL_SEQ": "p:1"},
        ]
    ),
)  # fmt: skip
odd_fields = st.sampled_from(
    [
        {"producerGroup": "other"}, {"producerGroup": "absent"}, {"tranStateTableOffset": "0"},
        {"tranStateTableOffset": "x"}, {"commitLogOffset": "0"}, {"commitLogOffset": "7"}, {"commitLogOffset": "-1"},
        {"commitLogOffset": "999999"}, {"commitOrRollback": "0"}, {"commitOrRollback": "4"}, {"msgId": "absent"},
        {"transactionId": "absent"}, {"msgId": "absent", "transactionId": "absent"}, {"topic": "T"}, {"bname": "b"},
        {"msgId": "AC0000FF", "transactionId": "AC0000FF"}, {"fromTransactionCheck": "true"}, {"Signature": "s"},
        {"fromTransactionCheck": "maybe"}, {"tranStateTableOffset": "01"}, {"msgId": "AC0000FF"},
    ]
)  # fmt: skip


@st.composite
def halves(draw: st.DrawFn) -> Item:
    options: dict[str, Any] = {
        "topic": draw(st.sampled_from(["T", "T", "T", "Many", "New", "%RETRY%g", "Compacted"])),
        "queue": draw(st.sampled_from([0, 1, 1, 2, -1, 9])),
        "codec": draw(codecs),
        "body": draw(st.binary(min_size=0, max_size=30)),
        "sys_flag": draw(st.sampled_from([4, 4, 4, 4, 0, 8, 12, 4 | 1, 4 | 64, 4 | 16])),
        "flag": draw(st.sampled_from([0, 0, 0, FLAG_ONEWAY])),
    }
    if draw(st.integers(0, 2)):
        options |= {"topic": "T", "queue": 1, "sys_flag": 4, "body": b"half"}
    pairs = draw(half_pairs)
    return lambda traffic: traffic.half(pairs, **options)


@st.composite
def plain_sends(draw: st.DrawFn) -> Item:
    pairs = draw(st.sampled_from([{}, {}, {"PGROUP": "pg"}, {"DELAY": "1"}, {"__transactionId__": KEY}]))
    codec, queue = draw(codecs), draw(st.integers(0, 2))
    return lambda traffic: traffic.send(pairs, queue=queue, codec=codec)


@st.composite
def ends(draw: st.DrawFn) -> Item:
    number = draw(st.integers(0, 30))
    outcome = draw(st.sampled_from([TRANSACTION_COMMIT, TRANSACTION_COMMIT, TRANSACTION_ROLLBACK]))
    change = draw(odd_fields) if draw(st.integers(0, 5)) == 0 else {}
    codec, flag = draw(codecs), draw(st.sampled_from([FLAG_ONEWAY] * 5 + [0]))

    def make(traffic: Traffic) -> bytes:
        if not traffic.halves:
            return b""
        named = traffic.halves[-1 - number % len(traffic.halves)]
        return traffic.end(named.end(outcome) | change, codec=codec, flag=flag)

    return make


def fewer_queues(world: World) -> None:
    world.broker.topics.put(TopicConfig("T", read_queues=1, write_queues=4))


def more_queues(world: World) -> None:
    world.broker.topics.put(TopicConfig("T", read_queues=4, write_queues=4))


def delete_topic(world: World) -> None:
    if "Many" in world.broker.topics:
        world.broker.topics.delete("Many")
        world.broker.store.delete_topics(["Many"])


def refuse_transactions(world: World) -> None:
    world.broker.config.update({"rejectTransactionMessage": "true"})


def take_transactions(world: World) -> None:
    world.broker.config.update({"rejectTransactionMessage": "false"})


chunks = st.lists(st.one_of(halves(), halves(), ends(), ends(), ends(), plain_sends()), min_size=1, max_size=12)
moves = st.one_of(
    chunks,
    chunks,
    chunks,
    st.sampled_from([100, 900, 2500]),
    st.sampled_from([fewer_queues, more_queues, delete_topic, refuse_transactions, take_transactions]),
)


@pytest.mark.timeout(600)  # half a minute alone, four on a machine that others use
@pytest.mark.parametrize("examples", [40, pytest.param(400, marks=pytest.mark.long)])
@pytest.mark.parametrize("sync", [False, True])
def test_any_traffic_has_the_same_effects(sync: bool, examples: int) -> None:
    async def play(moves: list[Any]) -> None:
        pair = Ends(sync=sync)
        await pair.start()
        for move in moves:
            if isinstance(move, list):
                chunk = b"".join(item(pair.traffic) for item in move)
                await pair.send(chunk, other_link=len(chunk) % 7 == 0)
            elif isinstance(move, int):
                await pair.wait(move)
            else:
                pair.each(move)
        await pair.stop()

    @settings(max_examples=examples, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
    @given(moves=st.lists(moves, min_size=1, max_size=10))
    def compare(moves: list[Any]) -> None:
        run(lambda: play(moves))

    compare()


# -- single cases ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("codec", Codec)
@pytest.mark.parametrize("sync", [False, True])
def test_half_messages_and_ends_are_taken_by_the_chunk(codec: Codec, sync: bool) -> None:
    """Without this, the comparison above could compare the ordinary path with itself."""

    async def work() -> None:
        pair = Ends(sync=sync, changes={"transactionOpMsgMaxSize": "4096"})
        await pair.start()
        traffic = pair.traffic
        again = {names.TRANSACTION_ID: KEY}  # Java's client marks a message that it has sent
        await pair.send(b"".join(traffic.half(pairs, codec=codec) for pairs in (again, {}, {}, {}, again, {})))
        known = traffic.halves[-6:]
        chunk = traffic.end(known[0].end(), codec=codec) + traffic.half(codec=codec) + traffic.send({}, codec=codec)
        chunk += traffic.end(known[1].end(TRANSACTION_ROLLBACK), codec=codec)
        chunk += b"".join(traffic.end(half.end(), codec=codec) for half in known[2:5])
        await pair.send(chunk)
        await pair.send(traffic.end(known[5].end(TRANSACTION_ROLLBACK), codec=codec))
        assert pair.in_runs == [6, 6]  # a run of rollbacks alone stores nothing
        assert pair.messages("T", 1) == 2 + 4
        assert pair.messages(HALF_TOPIC) == 7
        await pair.stop()
        assert pair.messages(OP_TOPIC) == 1

    run(work)


def test_an_op_message_lies_behind_the_end_that_fills_it() -> None:
    async def work() -> None:
        pair = Ends()
        await pair.start()
        traffic = pair.traffic
        await pair.send(b"".join(traffic.half() for _ in range(20)))
        chunk = b"".join(traffic.end(half.end()) + traffic.send({}) for half in traffic.halves[-20:])
        await pair.send(chunk)
        assert pair.messages(OP_TOPIC) == 6  # of 5, 5, 3, 1, 3 and 1 ends; two ends wait
        assert pair.in_runs[1:] == [9, 10, 8, 8, 5]
        await pair.stop()

    run(work)


def test_ends_of_one_half_message_in_one_chunk_store_one_message() -> None:
    async def work() -> None:
        pair = Ends()
        await pair.start()
        traffic = pair.traffic
        await pair.send(traffic.half())
        half = traffic.halves[-1]
        chunk = traffic.end(half.end()) * 3 + traffic.end(half.end(TRANSACTION_ROLLBACK)) + traffic.end(half.end())
        await pair.send(chunk)
        await pair.send(chunk)
        assert pair.messages("T", 1) == 2
        await pair.stop()

    run(work)


def test_an_end_of_any_place_of_a_transaction_that_was_put_back() -> None:
    async def work() -> None:
        pair = Ends()
        await pair.start()
        traffic = pair.traffic
        await pair.send(traffic.half() + traffic.half())
        await pair.wait(2500)
        assert pair.messages(HALF_TOPIC) > 2
        await pair.send(b"".join(traffic.end(half.end()) for half in traffic.halves[-2:]) * 2)
        assert pair.messages("T", 1) == 3
        await pair.stop()

    run(work)


def test_an_end_that_comes_on_another_link() -> None:
    """Its record has the address of the half message's sender."""

    async def work() -> None:
        pair = Ends()
        await pair.start()
        traffic = pair.traffic
        await pair.send(traffic.half() + traffic.half())
        await pair.send(traffic.end(traffic.halves[-1].end()) + traffic.half(), other_link=True)
        await pair.send(traffic.end(traffic.halves[-2].end()))
        await pair.stop()

    run(work)


@pytest.mark.parametrize("sync", [False, True])
def test_a_disk_that_refuses_leaves_the_transactions_open(sync: bool) -> None:
    """The run and each of its ends are refused; the transactions end once later."""

    async def work() -> None:
        pair = Ends(sync=sync)
        await pair.start()
        traffic = pair.traffic
        await pair.send(traffic.half() + traffic.half() + traffic.half())
        ends = b"".join(traffic.end(half.end()) for half in traffic.halves[-3:])
        for plan in pair.plans:
            plan.add(Fault("pwrite", path_part="commitlog", error=errno.EIO))
        await pair.send(ends + traffic.half())
        assert pair.messages("T", 1) == 1
        await pair.stop()

    run(work)


def test_a_full_file_is_rolled_in_between() -> None:
    async def work() -> None:
        pair = Ends(changes={"transactionOpMsgMaxSize": "30"})
        await pair.start()
        traffic = pair.traffic
        for _ in range(6):
            await pair.send(b"".join(traffic.half(body=b"x" * 3000) for _ in range(5)))
            ends = [traffic.end(half.end()) for half in traffic.halves[-5:]]
            await pair.send(b"".join(end + traffic.half(body=b"y" * 2000) for end in ends))
        assert pair.messages("T", 1) == 31
        await pair.stop()

    run(work)


def test_no_end_passes_those_that_wait_for_the_ledger() -> None:
    async def work() -> None:
        pair = Ends()
        await pair.start()
        traffic = pair.traffic
        await pair.send(traffic.half() + traffic.half())
        first, second = traffic.halves[-2:]
        pair.each(lambda world: setattr(ledger(world), "is_known", False))
        await pair.send(traffic.end(first.end()))
        pair.each(lambda world: setattr(ledger(world), "is_known", True))
        await pair.send(traffic.end(first.end(TRANSACTION_ROLLBACK)) + traffic.end(second.end()))
        assert pair.messages("T", 1) == 1
        await pair.wait(100)
        pair.compare()
        assert ledger(pair.fast).at(QueueOffset(first.queue_offset)) is Standing.COMMITTED
        assert pair.messages("T", 1) == 3
        await pair.stop()

    run(work)


def test_no_end_passes_one_of_its_link_that_waits_for_the_disk() -> None:
    async def work() -> None:
        pair = Ends()
        await pair.start()
        world, traffic = pair.fast, pair.traffic
        await pair.send(traffic.half() + traffic.half())
        first, second = traffic.halves[-2:]
        store, looks = world.broker.store, [first.physical_offset] * 3
        read = store.read_record

        def read_late(offset: PhysicalOffset) -> memoryview | None:
            if offset in looks:
                looks.remove(offset)
                mapped = store.log.list.files[0]
                raise NotInMemory([(mapped.path, 0, mapped.wrote)])
            return read(offset)

        store.read_record = read_late  # type: ignore[method-assign]
        # An answer is wanted, so this end takes the ordinary way; there it waits until its record is in memory.
        waits = traffic.end(first.end(), flag=0)
        await world.send(waits + traffic.end(second.end()) + traffic.end(first.end(TRANSACTION_ROLLBACK)))
        assert looks == []
        assert ledger(world).at(QueueOffset(first.queue_offset)) is Standing.COMMITTED
        found = store.get("T", 1, QueueOffset(1), 32, 1 << 20)
        keys = [message.unique_key for message in decode_records(b"".join(found.slices))]
        assert keys == [first.key, second.key]
        for each in pair.worlds:
            await each.stop()

    run(work)


def test_ends_of_a_run_that_cannot_be_answered_are_noted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Their messages are stored. Sent again they store no second one."""

    async def work() -> None:
        pair = Ends()
        await pair.start()
        world, traffic = pair.fast, pair.traffic
        await pair.send(traffic.half())
        half = traffic.halves[-1]
        with monkeypatch.context() as patch:
            patch.setattr(Link, "write_answers", lambda _link, _answers: 1 // 0)
            await world.send(traffic.end(half.end()) + traffic.send({}))
        assert world.peer.lost
        await world.send(traffic.end(half.end()), other_link=True)
        assert ledger(world).at(QueueOffset(half.queue_offset)) is Standing.COMMITTED
        assert pair.messages("T", 1) == 3
        for each in pair.worlds:
            await each.stop()

    run(work)
