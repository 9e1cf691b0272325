"""Acknowledgements in runs against the ordinary path: the same traffic has the same effects.

Two brokers in memory get the same chunks, one of them serves every request in the ordinary way (see worlds.py).
Acknowledgements name messages by the answers to pops, so each chunk is made of the answers to those before.
"""

from __future__ import annotations

import errno
import json
import os
from base64 import b64encode
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rocketlake.base.disk.faulty import Fault
from rocketlake.model import property_names as names
from rocketlake.model.pop import PopHandle
from rocketlake.model.topic import TIMER_TOPIC, TopicConfig
from rocketlake.protocol.command import FLAG_ONEWAY, Codec, Command
from rocketlake.protocol.frame import encode_command
from rocketlake.protocol.request_code import RequestCode
from rocketlake.protocol.response_code import ResponseCode
from tests.parity.pairs import Pair
from tests.parity.worlds import World, run

if os.environ.get("ROCKETLAKE_PURE") == "1":
    pytest.skip("kernels have a compiled form only", allow_module_level=True)

GROUP = "g"
INVISIBLE_MS = 20_000
LATE_MS = 60_000
"""Behind it all that was popped comes again."""

Fields = dict[str, str]


@dataclass
class Popped:
    """A message that was handed out."""

    handle: PopHandle

    def ack(self) -> Fields:
        return {
            "consumerGroup": GROUP, "topic": "T", "queueId": str(self.handle.queue_id),
            "extraInfo": str(self.handle), "offset": str(self.handle.offset),
        }  # fmt: skip


def entries_of(popped: Sequence[Popped]) -> list[dict[str, Any]]:
    """An entry for each check point."""
    found: dict[tuple[int, int, int], list[PopHandle]] = {}
    for each in popped:
        found.setdefault((each.handle.queue_id, each.handle.start_offset, each.handle.pop_ms), []).append(each.handle)
    return [_entry(handles) for handles in found.values()]


def _entry(handles: list[PopHandle]) -> dict[str, Any]:
    handle = handles[0]
    bits = 0
    for each in handles:
        bits |= 1 << each.offset - each.start_offset
    return {
        "b": b64encode(bits.to_bytes(-(-bits.bit_length() // 8), "little")).decode(), "c": GROUP,
        "it": handle.invisible_ms, "pt": handle.pop_ms, "q": handle.queue_id, "r": handle.mark,
        "rq": handle.revive_queue, "so": handle.start_offset, "t": "T",
    }  # fmt: skip


@dataclass
class Traffic:
    """Makes chunks for both brokers, and knows what they have answered to pops."""

    now_ms: Callable[[], int]
    popped: list[Popped] = field(default_factory=list)
    opaque: int = 0

    def frame(self, code: int, fields: Fields, *, flag: int = 0, body: bytes = b"") -> bytes:
        self.opaque += 1
        wanted = {name: value for name, value in fields.items() if value != "absent"}
        command = Command(code, opaque=self.opaque, flag=flag, language="JAVA", version=433, fields=wanted, body=body)
        return b"".join(bytes(part) for part in encode_command(command, Codec.JSON))

    def send(self, queue: int) -> bytes:
        text = f"{names.UNIQUE_KEY}\x01AC{self.opaque:06X}\x02"
        fields = {
            "a": "pg", "b": "T", "c": "TBW102", "d": "4", "e": str(queue), "f": "0", "g": str(self.now_ms()),
            "h": "3", "i": text, "j": "0", "k": "false", "m": "false",
        }  # fmt: skip
        return self.frame(RequestCode.SEND_MESSAGE_V2, fields, body=b"body")

    def pop(self, count: int, *, invisible_ms: int = INVISIBLE_MS, order: bool = False) -> bytes:
        fields = {
            "consumerGroup": GROUP, "topic": "T", "queueId": "-1", "maxMsgNums": str(count),
            "invisibleTime": str(invisible_ms), "pollTime": "0", "bornTime": str(self.now_ms()), "initMode": "0",
            "order": str(order).lower(),
        }  # fmt: skip
        return self.frame(RequestCode.POP_MESSAGE, fields)

    def ack(self, fields: Fields, *, flag: int = 0, body: bytes = b"") -> bytes:
        return self.frame(RequestCode.ACK_MESSAGE, fields, flag=flag, body=body)

    def batch(
        self, entries: Sequence[Fields | dict[str, Any]], *, flag: int = 0, fields: Fields | None = None
    ) -> bytes:
        """BATCH_ACK_MESSAGE, as Java's clients write it."""
        return self.text({"acks": entries, "brokerName": "b"}, flag=flag, fields=fields)

    def text(self, body: object, *, flag: int = 0, fields: Fields | None = None) -> bytes:
        text = json.dumps(body, separators=(",", ":"), ensure_ascii=False).encode()
        return self.frame(RequestCode.BATCH_ACK_MESSAGE, fields or {}, flag=flag, body=text)

    def learn(self, answers: list[Command]) -> None:
        """Take the handles from the answers to pops."""
        for answer in answers:
            fields = answer.fields or {}
            if answer.code != ResponseCode.SUCCESS or "msgOffsetInfo" not in fields:
                continue
            starts = dict(part.rsplit(" ", 1) for part in fields["startOffsetInfo"].split(";"))
            for part in fields["msgOffsetInfo"].split(";"):
                queue, offsets = part.rsplit(" ", 1)
                mark, queue_id = queue.split(" ")
                times = int(fields["popTime"]), int(fields["invisibleTime"]), int(fields["reviveQid"])
                if mark == "0":
                    self.popped += [
                        Popped(PopHandle(int(starts[queue]), *times, mark, "b", int(queue_id), int(offset)))
                        for offset in offsets.split(",")
                    ]


class Acks(Pair[Traffic]):
    """Both brokers."""

    def __init__(self, *, sync: bool = False) -> None:
        super().__init__(Traffic, sync=sync)

    def first_chunk(self) -> bytes:
        return self.traffic.send(0)

    def noted(self, world: World) -> object:
        return world.broker.popping.in_flight._counts

    async def handed_out(self, count: int) -> list[Popped]:
        """So many messages, sent and popped by one pop."""
        await self.send(b"".join(self.traffic.send(number % 4) for number in range(count)))
        known = len(self.traffic.popped)
        while len(self.traffic.popped) < known + count:
            await self.send(self.traffic.pop(count))
            await self.wait(100)
        self.in_runs.clear()
        return self.traffic.popped[known : known + count]


# -- any traffic -------------------------------------------------------------------------------------------------------

Item = Callable[[Traffic], bytes]


def _handle(**changes: object) -> Callable[[PopHandle], str]:
    """The handle with other parts."""

    def changed(handle: PopHandle) -> str:
        parts = {name: getattr(handle, name) for name in handle.__slots__} | changes
        return " ".join(str(part) for part in parts.values())

    return changed


odd_handles: st.SearchStrategy[Callable[[PopHandle], str]] = st.sampled_from(
    [
        _handle(), _handle(revive_queue=999), _handle(revive_queue=8), _handle(revive_queue=-1), _handle(pop_ms=5),
        _handle(queue_id=3), _handle(queue_id=-1), _handle(mark="1"), _handle(mark=""), _handle(mark="né"),
        _handle(broker_name="other"), _handle(broker_name='a"b'), _handle(broker_name=""), _handle(broker_name="é"),
        _handle(offset=-1), _handle(offset="x"), _handle(offset=""), _handle(start_offset="01"),
        _handle(start_offset="+1"), _handle(pop_ms="1_0"), _handle(invisible_ms=10**9), _handle(invisible_ms=10**17),
        _handle(invisible_ms=-5), _handle(invisible_ms=0), _handle(pop_ms=10**18), _handle(offset="0 more"),
        lambda handle: str(handle).rpartition(" ")[0], lambda handle: str(handle).rpartition(" ")[0] + " ",
        lambda handle: "no handle", lambda handle: "1 2 3", lambda handle: "", lambda handle: f" {handle}",
    ]
)  # fmt: skip
odd_fields = st.sampled_from(
    [
        {"consumerGroup": "absent"}, {"consumerGroup": ""}, {"consumerGroup": "other"}, {"consumerGroup": "a b"},
        {"consumerGroup": 'a"b'}, {"consumerGroup": "é"}, {"consumerGroup": "g" * 300}, {"topic": "absent"},
        {"topic": "None"}, {"topic": "Many"}, {"topic": "%RETRY%g_T"}, {"topic": ""}, {"queueId": "absent"},
        {"queueId": "3"}, {"queueId": "4"}, {"queueId": "-1"}, {"queueId": "x"}, {"queueId": "00"}, {"offset": "-1"},
        {"offset": "absent"}, {"offset": "999"}, {"offset": "x"}, {"offset": "1"}, {"extraInfo": "absent"},
        {"liteTopic": "l"}, {"bname": "b"}, {"ns": "n", "nsd": "true", "lo": "false"}, {"invisibleTime": "1"},
    ]
)  # fmt: skip


@st.composite
def acks(draw: st.DrawFn) -> Item:
    number = draw(st.integers(0, 30))
    change = draw(odd_fields) if draw(st.integers(0, 4)) == 0 else {}
    odd = draw(odd_handles) if draw(st.integers(0, 4)) == 0 else None
    flag = draw(st.sampled_from([0] * 7 + [FLAG_ONEWAY]))
    body = draw(st.sampled_from([b""] * 7 + [b"x"]))

    def make(traffic: Traffic) -> bytes:
        if not traffic.popped:
            return b""
        named = traffic.popped[-1 - number % len(traffic.popped)]
        handle = {} if odd is None else {"extraInfo": odd(named.handle)}
        return traffic.ack(named.ack() | handle | change, flag=flag, body=body)

    return make


odd_members = st.sampled_from(
    [
        {"b": "absent"}, {"b": ""}, {"b": "AQ"}, {"b": "AQ=="}, {"b": "AR=="}, {"b": "/w=="}, {"b": "A==="},
        {"b": "===="},
        {"b": "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"}, {"b": "////////"}, {"b": "_w=="}, {"b": "AQ==AQ=="},
        {"b": "AQI="}, {"b": "AQJ="}, {"b": b64encode(b"\xff" * 40).decode()}, {"b": b64encode(b"\xff" * 600).decode()},
        {"b": "A\nQ=="}, {"b": 1}, {"c": "absent"}, {"c": ""}, {"c": "other"}, {"c": 'a"b'}, {"c": "é"},
        {"c": "g" * 300},
        {"c": "null"}, {"t": "absent"}, {"t": "None"}, {"t": "Many"}, {"t": "%RETRY%g_T"}, {"t": ""}, {"q": 3},
        {"q": 4},
        {"q": -1}, {"q": "0"}, {"q": 2**31}, {"q": None}, {"r": "absent"}, {"r": "1"}, {"r": "2"}, {"r": "x"}, {"r": 0},
        {"rq": 999}, {"rq": 8}, {"rq": -1}, {"rq": "1"}, {"it": 0}, {"it": -5}, {"it": 10**9}, {"it": 10**17},
        {"it": 1.5}, {"pt": 5}, {"pt": 10**18}, {"pt": "absent"}, {"so": 0}, {"so": 999}, {"so": -1}, {"so": 10**17},
        {"more": 1}, {"more": "x"}, {"more": [{}]},
    ]
)  # fmt: skip
odd_bodies = st.sampled_from(
    [
        lambda acks: {"acks": acks}, lambda acks: {"brokerName": "b", "acks": acks}, lambda acks: {"acks": None},
        lambda acks: {"acks": []}, lambda acks: {"brokerName": "b"}, lambda acks: {}, lambda acks: acks,
        lambda acks: "x",
        lambda acks: {"acks": acks, "brokerName": None}, lambda acks: {"acks": acks, "more": 1},
        lambda acks: {"acks": acks * 40}, lambda acks: {"acks": [*acks, {}]}, lambda acks: {"acks": [*acks, None]},
        lambda acks: {"acks": [dict(reversed(each.items())) for each in acks]},
    ]
)  # fmt: skip


@st.composite
def batches(draw: st.DrawFn) -> Item:
    """Acknowledgements of many messages at once; some of them odd."""
    numbers = draw(st.lists(st.integers(0, 30), min_size=1, max_size=8))
    change = draw(odd_members) if draw(st.integers(0, 3)) == 0 else {}
    odd = draw(odd_bodies) if draw(st.integers(0, 5)) == 0 else None
    flag = draw(st.sampled_from([0] * 7 + [FLAG_ONEWAY]))
    fields = draw(st.sampled_from([{}, {}, {}, {"ns": "n", "nsd": "true"}, {"other": "x"}]))

    def make(traffic: Traffic) -> bytes:
        if not traffic.popped:
            return b""
        entries = entries_of([traffic.popped[-1 - number % len(traffic.popped)] for number in numbers])
        entries[-1] = {name: value for name, value in (entries[-1] | change).items() if value != "absent"}
        if odd is not None:
            return traffic.text(odd(entries), flag=flag, fields=fields)
        return traffic.batch(entries, flag=flag, fields=fields)

    return make


@st.composite
def sends(draw: st.DrawFn) -> Item:
    queue = draw(st.integers(0, 3))
    return lambda traffic: traffic.send(queue)


@st.composite
def pops(draw: st.DrawFn) -> Item:
    count, invisible_ms = draw(st.sampled_from([1, 3, 32])), draw(st.sampled_from([INVISIBLE_MS, 1500, 1]))
    return lambda traffic: traffic.pop(count, invisible_ms=invisible_ms, order=False)


def fewer_queues(world: World) -> None:
    world.broker.topics.put(TopicConfig("T", read_queues=1, write_queues=4))


def more_queues(world: World) -> None:
    world.broker.topics.put(TopicConfig("T", read_queues=4, write_queues=4))


chunks = st.lists(st.one_of(sends(), sends(), pops(), acks(), acks(), batches(), batches()), min_size=1, max_size=12)
moves = st.one_of(
    chunks, chunks, chunks, chunks, st.sampled_from([100, 900, 4000]), st.sampled_from([fewer_queues, more_queues])
)


@pytest.mark.timeout(600)  # of the long tier, on a machine that others use
@pytest.mark.parametrize("examples", [8, pytest.param(60, marks=pytest.mark.long)])
@pytest.mark.parametrize("sync", [False, True])
def test_any_traffic_has_the_same_effects(sync: bool, examples: int) -> None:
    async def play(moves: list[Any]) -> None:
        pair = Acks(sync=sync)
        await pair.start()
        await pair.handed_out(6)
        for move in moves:
            if isinstance(move, list):
                chunk = b"".join(item(pair.traffic) for item in move)
                await pair.send(chunk, other_link=len(chunk) % 7 == 0)
            elif isinstance(move, int):
                await pair.wait(move)
            else:
                for world in pair.worlds:
                    move(world)
        await pair.stop()

    @settings(max_examples=examples, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
    @given(moves=st.lists(moves, min_size=1, max_size=8))
    def compare(moves: list[Any]) -> None:
        run(lambda: play(moves))

    compare()


# -- single cases ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("sync", [False, True])
def test_acknowledgements_are_taken_by_the_chunk(sync: bool) -> None:
    """Without this, the comparison above could compare the ordinary path with itself."""

    async def work() -> None:
        pair = Acks(sync=sync)
        await pair.start()
        popped = await pair.handed_out(6)
        in_timer = pair.fast.broker.store.next_offset(TIMER_TOPIC, 0)
        chunk = b"".join(pair.traffic.ack(each.ack()) for each in popped[:5])
        answers = await pair.send(chunk + pair.traffic.send(0) + pair.traffic.ack(popped[5].ack()))
        assert [answer.code for answer in answers] == [ResponseCode.SUCCESS] * 7
        assert pair.in_runs == [5, 1, 1]
        assert pair.fast.broker.store.next_offset(TIMER_TOPIC, 0) == in_timer + 6
        assert pair.noted(pair.fast) == {}
        await pair.wait(LATE_MS)  # none of them comes again
        pair.traffic.popped.clear()
        await pair.send(pair.traffic.pop(32))
        assert len(pair.traffic.popped) == 2  # the first one, and that of the chunk
        await pair.stop()

    run(work)


@pytest.mark.parametrize("sync", [False, True])
def test_acknowledgements_of_many_are_taken_by_the_chunk(sync: bool) -> None:
    async def work() -> None:
        pair = Acks(sync=sync)
        await pair.start()
        popped = await pair.handed_out(12)
        entries = entries_of(popped)
        in_timer = pair.fast.broker.store.next_offset(TIMER_TOPIC, 0)
        traffic = pair.traffic
        answers = await pair.send(
            traffic.batch(entries[:1]) + traffic.ack(popped[-1].ack()) + traffic.batch(entries[1:])
        )
        assert [answer.code for answer in answers] == [ResponseCode.SUCCESS] * 3
        assert pair.in_runs == [len(entries) + 1]
        assert pair.fast.broker.store.next_offset(TIMER_TOPIC, 0) == in_timer + len(entries) + 1
        await pair.wait(LATE_MS)  # none of them comes again
        pair.traffic.popped.clear()
        await pair.send(pair.traffic.pop(32))
        assert len(pair.traffic.popped) == 1  # the first one
        await pair.stop()

    run(work)


def test_check_points_are_stored_as_runs() -> None:
    """Without this, check points could all be compared with themselves: one that is not plain is as the others."""

    async def work() -> None:
        pair = Acks()
        await pair.start()
        await pair.handed_out(12)
        await pair.send(b"".join(pair.traffic.send(number) for number in range(4)))
        pair.in_runs.clear()
        await pair.send(pair.traffic.pop(32))
        assert pair.in_runs == [1, 1, 1, 1]  # of each queue
        await pair.stop()

    run(work)


def test_an_acknowledgement_of_many_is_taken_whole_or_not_at_all() -> None:
    """One odd entry behind good ones: the ordinary path gets them all."""

    async def work() -> None:
        pair = Acks()
        await pair.start()
        entries = entries_of(await pair.handed_out(12))
        assert len(entries) > 1
        [answer] = await pair.send(pair.traffic.batch([*entries[:-1], entries[-1] | {"rq": 8}]))
        assert answer.code == ResponseCode.MESSAGE_ILLEGAL
        assert pair.in_runs == []
        await pair.stop()

    run(work)


def test_an_acknowledgement_that_the_disk_loses_is_no_success() -> None:
    async def work() -> None:
        pair = Acks(sync=True)
        await pair.start()
        popped = await pair.handed_out(3)
        for plan in pair.plans:
            plan.add(Fault("sync", "commitlog", error=errno.EIO))
        answers = await pair.send(b"".join(pair.traffic.ack(each.ack()) for each in popped))
        assert pair.in_runs == [3]
        assert [answer.code for answer in answers] == [ResponseCode.SYSTEM_ERROR] * 3

    run(work)
