"""Acknowledgements in runs against the ordinary path: the same traffic has the same effects.

Two brokers in memory get the same chunks, one of them serves every request in the ordinary way (see worlds.py).
Acknowledgements name messages by the answers to pops, so each chunk is made of the answers to those before.
"""

from __future__ import annotations

import errno
import os
from base64 import b64encode
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rocketlake.base.disk.faulty import Fault
from rocketlake.model.pop import PopHandle
from rocketlake.model.topic import TIMER_TOPIC, TopicConfig
from rocketlake.protocol.command import FLAG_ONEWAY
from rocketlake.protocol.request_code import RequestCode
from rocketlake.protocol.response_code import ResponseCode
from tests.parity.pairs import Pair
from tests.parity.pop_traffic import INVISIBLE_MS, LATE_MS, Popped, Traffic, entries_of
from tests.parity.worlds import World, run

if os.environ.get("ROCKETLAKE_PURE") == "1":
    pytest.skip("kernels have a compiled form only", allow_module_level=True)


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
        {"b": b64encode(b"\x01" + bytes(600)).decode()}, {"b": b64encode(b"\x01" + bytes(30)).decode()},
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
    return lambda traffic: traffic.pop(count, invisible_ms=invisible_ms)


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
        assert pair.in_runs == [4]  # one of each queue
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


def test_a_run_that_is_not_stored_is_tried_once_a_chunk() -> None:
    """With a full disk, or at the end of a log file, each request would have all behind it read anew."""

    async def work() -> None:
        pair = Acks()
        await pair.start()
        chunk = b"".join(pair.traffic.ack(each.ack()) for each in await pair.handed_out(6))
        pair.each(lambda world: setattr(world.broker.store, "copies", "the disk is full"))
        answers = await pair.send(chunk)
        assert {answer.code for answer in answers} == {ResponseCode.SERVICE_NOT_AVAILABLE}
        assert pair.in_runs == [6]
        pair.each(lambda world: setattr(world.broker.store, "copies", ""))
        await pair.send(bytes(bytearray(chunk)))
        assert pair.in_runs == [6, 6]
        await pair.stop()

    run(work)


def test_bits_of_more_messages_than_a_check_point_has_are_refused() -> None:
    async def work() -> None:
        pair = Acks()
        await pair.start()
        [entry, *_] = entries_of(await pair.handed_out(3))
        answers = await pair.send(pair.traffic.batch([entry | {"b": b64encode(b"\x01" + bytes(600)).decode()}]))
        assert [answer.code for answer in answers] == [ResponseCode.MESSAGE_ILLEGAL]
        await pair.stop()

    run(work)


@pytest.mark.parametrize("invisible_ms", [2**63 - 1, 2**63 - 2000, 10**18, 10**15, -1, -(2**63)])
def test_times_that_no_check_point_has(invisible_ms: int) -> None:
    """The time of the request, and of a handle that a client made up, may be any number."""

    async def work() -> None:
        pair = Acks()
        await pair.start()
        [popped] = await pair.handed_out(1)
        traffic, change = pair.traffic, popped.ack() | {"invisibleTime": str(invisible_ms)}
        odd = replace(popped.handle, start_offset=popped.handle.offset, pop_ms=10**30)
        await pair.send(traffic.send(0) + traffic.pop(1, invisible_ms=invisible_ms))
        await pair.send(traffic.frame(RequestCode.CHANGE_MESSAGE_INVISIBLETIME, change))
        await pair.send(traffic.frame(RequestCode.CHANGE_MESSAGE_INVISIBLETIME, change | {"extraInfo": str(odd)}))
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
