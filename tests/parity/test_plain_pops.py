"""Runs of plain pops against the ordinary path: the same traffic gives the same answers, positions and files.

Two brokers in memory get the same chunks, one of them serves every request in the ordinary way (see worlds.py).
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rocketlake.model.group import GroupConfig
from rocketlake.model.topic import Perm, TopicConfig
from rocketlake.net.limits import NetLimits
from rocketlake.protocol.command import FLAG_ONEWAY
from rocketlake.protocol.response_code import ResponseCode
from tests.parity.pairs import Pair
from tests.parity.pop_traffic import GROUP, LATE_MS, Traffic, entries_of
from tests.parity.worlds import World, run

if os.environ.get("ROCKETLAKE_PURE") == "1":
    pytest.skip("kernels have a compiled form only", allow_module_level=True)

from rocketlake.broker.hot.pops.pop_runs import PopRuns

if TYPE_CHECKING:
    from rocketlake.net.link import Link


class Pops(Pair[Traffic]):
    """Both brokers."""

    def __init__(self, *, limits: NetLimits | None = None) -> None:
        super().__init__(Traffic, limits=limits)

    def first_chunk(self) -> bytes:
        return self.traffic.send(0)

    def noted(self, world: World) -> object:
        popping, broker = world.broker.popping, world.broker
        return {
            "in flight": popping.in_flight._counts,
            "next": {key: popping.positions.place(*key) for key in popping.in_flight},
            "held": len(popping.hold),
            "held by link": [link.held for link in broker._servers[0].links],
            "groups": list(broker.groups.all()),
            "counts": world.counts(),
        }

    async def begun(self) -> None:
        """The group is known, and has popped what there was."""
        await self.start()
        await self.send(self.traffic.pop(32))
        await self.wait(100)


# -- any traffic -------------------------------------------------------------------------------------------------------

Item = Callable[[Traffic], bytes]

_ODD = [
    "absent", "", "-1", "0", "1", "33", "01", "+1", "x", "é", "3", "2147483648", "9" * 18, "9" * 19, "true", "false",
    "TAG", "SQL92", "*", "||", "red", "red || blue", "a = 1", "g2", "no good", "Unknown", "Shut", "Many",
]  # fmt: skip
_NAMES = [
    "consumerGroup", "topic", "queueId", "maxMsgNums", "invisibleTime", "pollTime", "bornTime", "initMode", "exp",
    "expType", "order", "attemptId", "lo", "nsd", "bname", "strange",
]  # fmt: skip


@st.composite
def pops(draw: st.DrawFn) -> Item:
    fields: dict[str, str] = {"pollTime": draw(st.sampled_from(["0", "0", "700", "3000"]))}
    kind = draw(st.integers(0, 7))
    if kind == 0:
        fields[draw(st.sampled_from(_NAMES))] = draw(st.sampled_from(_ODD))
    elif kind == 1:
        fields["queueId"] = draw(st.sampled_from(["0", "1", "3", "4"]))
    elif kind == 2:
        fields |= {"exp": draw(st.sampled_from(["*", "red", "red || blue", "none"])), "expType": "TAG"}
    elif kind == 3:
        fields["consumerGroup"] = draw(st.sampled_from([GROUP, "new", "off"]))
    elif kind == 4:
        fields |= {"initMode": "1", "consumerGroup": draw(st.sampled_from([GROUP, "late"]))}
    count, invisible_ms = draw(st.sampled_from([1, 2, 3, 32, 33])), draw(st.sampled_from([20_000, 1500, 1, 10**9]))
    flag = draw(st.sampled_from([0] * 9 + [FLAG_ONEWAY]))
    body = draw(st.sampled_from([b""] * 9 + [b"x"]))
    return lambda traffic: traffic.pop(count, invisible_ms=invisible_ms, flag=flag, body=body, **fields)


@st.composite
def sends(draw: st.DrawFn) -> Item:
    queue, tag = draw(st.integers(0, 3)), draw(st.sampled_from(["", "red", "blue"]))
    return lambda traffic: traffic.send(queue, tag)


@st.composite
def acks(draw: st.DrawFn) -> Item:
    number = draw(st.integers(0, 20))

    def make(traffic: Traffic) -> bytes:
        if not traffic.popped:
            return b""
        return traffic.batch(entries_of([traffic.popped[-1 - number % len(traffic.popped)]]))

    return make


def fewer_queues(world: World) -> None:
    world.broker.topics.put(TopicConfig("T", read_queues=1, write_queues=4))


def more_queues(world: World) -> None:
    world.broker.topics.put(TopicConfig("T", read_queues=4, write_queues=4))


def shut_topic(world: World) -> None:
    world.broker.topics.put(TopicConfig("T", perm=Perm.WRITE))


def by_priority(world: World) -> None:
    attributes = {"message.type": "PRIORITY"}
    world.broker.topics.put(TopicConfig("T", read_queues=4, write_queues=4, attributes=attributes))


def no_topic(world: World) -> None:
    world.broker.topics.delete("T")


def no_reading(world: World) -> None:
    world.broker.config.update({"brokerPermission": "2"})


def reading(world: World) -> None:
    world.broker.config.update({"brokerPermission": "6"})


def group_off(world: World) -> None:
    world.broker.groups.put(GroupConfig(GROUP, consume_enable=False))


def group_on(world: World) -> None:
    world.broker.groups.put(GroupConfig(GROUP))


def no_group(world: World) -> None:
    world.broker.groups.delete(GROUP)


def reset(world: World) -> None:
    world.broker.offsets.assign_reset(GROUP, "T", 0, 0)


def retries_first(world: World) -> None:
    world.broker.config.update({"popFromRetryProbability": "100"})


def pass_by(world: World) -> None:
    """Nothing happens."""


ACTS = [
    fewer_queues, more_queues, shut_topic, by_priority, no_topic, no_reading, reading, group_off, group_on, no_group,
    reset, retries_first,
]  # fmt: skip

chunks = st.lists(st.one_of(sends(), sends(), pops(), pops(), pops(), acks()), min_size=1, max_size=12)
moves = st.one_of(chunks, chunks, chunks, chunks, st.sampled_from([100, 900, 4000, LATE_MS]), st.sampled_from(ACTS))


@pytest.mark.timeout(600)  # of the long tier, on a machine that others use
@pytest.mark.parametrize("examples", [8, pytest.param(100, marks=pytest.mark.long)])
def test_any_traffic_has_the_same_effects(examples: int) -> None:
    async def play(moves: list[Any]) -> None:
        pair = Pops()
        await pair.begun()
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
    @given(moves=st.lists(moves, min_size=1, max_size=8))
    def compare(moves: list[Any]) -> None:
        run(lambda: play(moves))

    compare()


# -- single cases ------------------------------------------------------------------------------------------------------


def watched(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Of each run: how many pops it held."""
    runs: list[int] = []
    find = PopRuns._find

    def watch(self: PopRuns, link: Link, ready: bytes, position: int, turn_end: float) -> list[Any]:
        found = find(self, link, ready, position, turn_end)
        runs.append(len(found))
        return found

    monkeypatch.setattr(PopRuns, "_find", watch)
    return runs


def test_plain_pops_are_taken_as_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without this, the comparison above could compare the ordinary path with itself."""

    async def work() -> None:
        pair = Pops()
        await pair.begun()
        traffic, runs = pair.traffic, watched(monkeypatch)
        await pair.send(b"".join(traffic.send(number % 4, "red") for number in range(12)))
        runs.clear()
        pair.in_runs.clear()
        answers = await pair.send(
            b"".join(traffic.pop(3) for _ in range(3))
            + traffic.pop(3, exp="red || green", expType="TAG", attemptId="a")
            + traffic.pop(3, pollTime="3000")
            + traffic.pop(3)
        )
        assert runs == [5, 1]  # one that finds nothing ends a run
        assert pair.in_runs == [4]  # their check points are stored by one write
        assert [answer.code for answer in answers] == [ResponseCode.SUCCESS] * 4 + [ResponseCode.POLLING_TIMEOUT]
        assert len(pair.fast.broker.popping.hold) == 1
        [sent, popped] = await pair.send(traffic.send(1))
        assert (sent.code, popped.code) == (ResponseCode.SUCCESS, ResponseCode.SUCCESS)
        assert len(pair.fast.broker.popping.hold) == 0
        await pair.stop()

    run(work)


@pytest.mark.parametrize("act", ACTS)
def test_each_change_is_seen_by_the_next_pop(act: Callable[[World], None]) -> None:
    """What lets a pop in is kept from turn to turn: the same pops before and after a change, of both kinds."""

    async def work() -> None:
        pair = Pops()
        await pair.begun()
        traffic = pair.traffic
        for change in (pass_by, act, group_on, more_queues):
            pair.each(change)
            await pair.send(
                b"".join(traffic.send(number % 4, "red") for number in range(8))
                + b"".join(
                    traffic.pop(2, **fields) for fields in ({}, {"exp": "red", "expType": "TAG"}, {"queueId": "0"})
                )
                + traffic.pop(2, queueId="2", pollTime="500")
            )
            await pair.wait(100)
        await pair.stop()

    run(work)


@pytest.mark.parametrize("name", _NAMES)
def test_each_odd_field(name: str) -> None:
    async def work() -> None:
        pair = Pops()
        await pair.begun()
        traffic = pair.traffic
        odd = (traffic.send(0) + traffic.send(1) + traffic.pop(1, **{name: value}) for value in _ODD)
        await pair.send(b"".join(odd))
        await pair.stop()

    run(work)


def test_a_link_that_may_hold_no_more_is_refused_alike() -> None:
    async def work() -> None:
        pair = Pops(limits=NetLimits(held=1))
        await pair.begun()
        traffic = pair.traffic
        answers = await pair.send(traffic.pop(1, pollTime="3000") + traffic.pop(1))
        assert [answer.code for answer in answers] == [ResponseCode.SYSTEM_BUSY]
        await pair.wait(5000)
        await pair.stop()

    run(work)


def test_what_came_again_is_popped_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    """Messages of a retry topic, with the name of the topic and a handle."""

    async def work() -> None:
        pair = Pops()
        await pair.begun()
        traffic = pair.traffic
        await pair.send(b"".join(traffic.send(number % 4) for number in range(6)) + traffic.pop(32, invisible_ms=1500))
        await pair.wait(LATE_MS)
        runs = watched(monkeypatch)
        [answer] = await pair.send(traffic.pop(32))
        assert runs == [1]
        assert answer.fields is not None
        assert answer.fields["msgOffsetInfo"].startswith(("1 0 ", "2 0 "))
        await pair.stop()

    run(work)


@pytest.mark.parametrize("last", ["red", "none"])
def test_check_points_that_are_refused_hand_out_nothing(last: str) -> None:
    """What the pops of a run have found is there for the next ones, unless a filter passes it by."""

    async def work() -> None:
        pair = Pops()
        await pair.begun()
        traffic = pair.traffic
        await pair.send(b"".join(traffic.send(number % 4, "red") for number in range(12)))
        for world in pair.worlds:
            world.broker.store.copies = "it is a replica"
        # The run that fails has used up the revive queues of its pops: behind 8 it is the same one's turn.
        filtered = traffic.pop(1, exp=last, expType="TAG")
        answers = await pair.send(b"".join(traffic.pop(1) for _ in range(7)) + filtered)
        assert {answer.code for answer in answers} == {ResponseCode.POLLING_TIMEOUT}
        assert len(traffic.popped) == 1
        for world in pair.worlds:
            world.broker.store.copies = ""
        await pair.send(b"".join(traffic.pop(3) for _ in range(4)))
        found = {(each.handle.queue_id, each.handle.offset) for each in traffic.popped}
        assert len(found) == len(traffic.popped) == (13 if last == "red" else 1)
        await pair.stop()

    run(work)
