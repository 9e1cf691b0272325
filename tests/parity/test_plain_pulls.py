"""Runs of plain pulls against the ordinary path: the same chunks give the same answers, offsets and counts.

Two brokers in memory hold the same messages and get the same traffic. One serves every request in the ordinary way.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rocketlake.broker.clients.consumers import BROADCASTING
from rocketlake.model.group import GroupConfig
from rocketlake.model.subscription import parse_subscription
from rocketlake.model.topic import Perm, TopicConfig
from rocketlake.net.limits import NetLimits
from rocketlake.net.shares import Shares
from rocketlake.protocol.command import FLAG_ONEWAY, Codec, Command
from rocketlake.protocol.frame import encode_command
from rocketlake.protocol.headers.offset import MaxOffsetHeader, UpdateOffsetHeader
from rocketlake.protocol.headers.pull import PULL_COMMIT_OFFSET, PULL_SUBSCRIPTION, PULL_SUSPEND
from rocketlake.protocol.request_code import RequestCode
from rocketlake.protocol.response_code import ResponseCode
from rocketlake.store.results import PutMessage
from tests.parity.worlds import BORN_MS, World, run

if os.environ.get("ROCKETLAKE_PURE") == "1":
    pytest.skip("kernels have a compiled form only", allow_module_level=True)

from rocketlake.broker.hot.pull_runs import PullRuns
from rocketlake.broker.processors.pull import Pull

if TYPE_CHECKING:
    from rocketlake.broker.hot.plain_pull import PlainPull
    from rocketlake.net.link import Link

_MESSAGES = 130
_END = str(_MESSAGES // 2)
"""Where queue 0 and 1 end."""
_TAGS = ("red", "blue", "")


def put(world: World, queue_id: int, tag: str, body: bytes) -> None:
    properties = f"TAGS\x01{tag}\x02".encode() if tag else b""
    world.broker.store.put(PutMessage("T", queue_id, body, properties=properties, born_ms=BORN_MS))


async def prepare(world: World) -> None:
    """Messages in two queues, one of them with a damaged record and two files; consumers with all kinds of rights."""
    await world.start()
    broker = world.broker
    for number in range(_MESSAGES):
        put(world, number % 2, _TAGS[number % 3], b"x" * (number * 37 % 900))
    entry = broker.store.queue_entries("T", 0, 7, 1)[0]
    mapped = broker.store.log.list.find(entry[0])
    assert mapped is not None
    mapped.file.pwrite(b"damaged", entry[0] - mapped.start)
    broker.topics.put(TopicConfig("Shut", perm=Perm.WRITE))
    broker.groups.put(GroupConfig("off", consume_enable=False))
    broker.groups.put(GroupConfig("single", consume_broadcast_enable=False))
    broker.groups.put(GroupConfig("forbidden"))
    broker.groups.set_read_forbidden("forbidden", "T", forbidden=True)
    link: Any = next(iter(broker._servers[0].links))
    for group, expression in (("all", "*"), ("reds", "red || green"), ("single", "*"), ("forbidden", "*")):
        model = BROADCASTING if group == "single" else "CLUSTERING"
        subscriptions = [parse_subscription("T", expression, version=5)]
        broker.clients.consumers.register(group, link, f"{group}-1", "CONSUME_PASSIVELY", model, "", subscriptions)
    await world.clock.settle()
    world.peer.raw.clear()
    world.peer.frames.clear()


def state(world: World) -> dict[str, object]:
    """What pulls change."""
    offsets = world.broker.offsets
    return {
        "counts": world.counts(),
        "pulled": offsets._pulled,
        "restart": offsets._restart,
        "committed": list(offsets.all()),
        "version": offsets.data_version,
        "groups": list(world.broker.groups.all()),
        "held": len(world.broker.reading.hold),
        "held by link": [link.held for link in world.broker._servers[0].links],
    }


Act = Callable[[World], object]


async def both(steps: list[bytes | Act], *, limits: NetLimits | None = None) -> World:
    """Take the steps in both worlds and compare after each; the world with runs."""
    fast, ordinary = worlds = [World(by_runs=by_runs, sync=False, limits=limits) for by_runs in (True, False)]
    for world in worlds:
        await prepare(world)
    for step in steps:
        for world in worlds:
            if isinstance(step, bytes):
                await world.send(step)
            else:
                step(world)
        assert fast.peer.raw == ordinary.peer.raw
        assert state(fast) == state(ordinary)
    for world in worlds:
        await world.clock.run_for(2000)
    assert fast.peer.raw == ordinary.peer.raw
    assert fast.peer.lost == ordinary.peer.lost
    assert state(fast) == state(ordinary)
    for world in worlds:
        await world.stop()
    return fast


def pull(opaque: int, *, codec: Codec = Codec.ROCKETMQ, code: int = RequestCode.PULL_MESSAGE, flag: int = 0,
         body: bytes = b"", **fields: Any) -> bytes:  # fmt: skip
    known = {
        "consumerGroup": "all", "topic": "T", "queueId": "1", "queueOffset": "0", "maxMsgNums": "32", "sysFlag": "0",
        "commitOffset": "0", "suspendTimeoutMillis": "500", "subVersion": "5", "expressionType": "TAG",
    }  # fmt: skip
    known.update(fields)
    wanted = {name: value for name, value in known.items() if value != "absent"}
    command = Command(code, opaque=opaque, flag=flag, language="JAVA", version=433, fields=wanted, body=body)
    return b"".join(map(bytes, encode_command(command, codec)))


_ODD = ["absent", "", "-1", "01", "+1", "x", "é", "3", "2147483648", "9" * 19, "true", "TAG", "SQL92", "*", "||", "red"]
_NAMES = [
    "consumerGroup", "topic", "queueId", "queueOffset", "maxMsgNums", "sysFlag", "commitOffset", "suspendTimeoutMillis",
    "subVersion", "expressionType", "subscription", "maxMsgBytes", "requestSource", "proxyFrowardClientId", "lo", "nsd",
    "bname", "strange",
]  # fmt: skip


@st.composite
def pulls(draw: st.DrawFn, opaque: int) -> bytes:
    flags = draw(st.sampled_from([0, PULL_SUSPEND, PULL_COMMIT_OFFSET, PULL_COMMIT_OFFSET | PULL_SUSPEND]))
    fields: dict[str, Any] = {
        "queueId": draw(st.sampled_from(["0", "1"])),
        "queueOffset": str(draw(st.integers(0, _MESSAGES // 2 + 1) | st.just(_MESSAGES // 2))),
        "maxMsgNums": draw(st.sampled_from(["-1", "0", "1", "2", "32", "5000"])),
        "commitOffset": str(draw(st.integers(0, 40))),
    }
    if draw(st.integers(0, 3)) == 0:
        fields["subscription"] = draw(st.sampled_from(["*", "red", "blue || red", "none"]))
        flags |= PULL_SUBSCRIPTION
    fields["sysFlag"] = str(flags)
    options: dict[str, Any] = {"codec": draw(st.sampled_from(Codec))}
    kind = draw(st.integers(0, 7))
    if kind == 0:
        fields[draw(st.sampled_from(_NAMES))] = draw(st.sampled_from(_ODD))
    elif kind == 1:
        fields["consumerGroup"] = draw(
            st.sampled_from(["all", "reds", "off", "single", "forbidden", "new", "no good", "CID_RMQ_SYS_TRANS"])
        )
    elif kind == 2:
        options["code"] = draw(st.sampled_from([RequestCode.LITE_PULL_MESSAGE, RequestCode.PULL_MESSAGE]))
        options["flag"] = draw(st.sampled_from([0, 0, FLAG_ONEWAY]))
        options["body"] = draw(st.sampled_from([b"", b"", b"body"]))
        fields["topic"] = draw(st.sampled_from(["T", "T", "Shut", "Unknown", "Compacted"]))
    elif kind == 3:
        fields["maxMsgBytes"] = draw(st.sampled_from(["0", "100", "1500", "100000"]))
    return pull(opaque, **options, **fields)


def others(opaque: int) -> st.SearchStrategy[bytes]:
    update = UpdateOffsetHeader(consumer_group="all", topic="T", queue_id=1, commit_offset=9)
    commands = [
        Command.request(RequestCode.GET_MAX_OFFSET, MaxOffsetHeader(topic="T", queue_id=1)),
        Command.request(RequestCode.UPDATE_CONSUMER_OFFSET, update),
    ]
    for command in commands:
        command.opaque = opaque
    return st.sampled_from([b"".join(map(bytes, encode_command(command))) for command in commands])


def reset(world: World) -> None:
    world.broker.offsets.assign_reset("all", "T", 1, 3)


def arrive(world: World) -> None:
    put(world, 1, "red", b"new")


def forbid(world: World) -> None:
    world.broker.groups.set_read_forbidden("all", "T", forbidden=True)


def allow(world: World) -> None:
    world.broker.groups.set_read_forbidden("all", "T", forbidden=False)


def fewer_queues(world: World) -> None:
    world.broker.topics.put(TopicConfig("T", read_queues=1, write_queues=4, sys_flag=2))


def no_lite_pulls(world: World) -> None:
    world.broker.config.update({"litePullMessageEnable": "false"})


def no_reading(world: World) -> None:
    world.broker.config.update({"brokerPermission": "2"})


def new_subscription(world: World) -> None:
    group = world.broker.clients.consumers.find("all")
    if group is not None:
        group.set_subscriptions([parse_subscription("T", "blue", version=6)])


def group_off(world: World) -> None:
    world.broker.groups.put(GroupConfig("all", consume_enable=False))


def group_on(world: World) -> None:
    world.broker.groups.put(GroupConfig("all"))


def broadcasting(world: World) -> None:
    """The group now says that it broadcasts, which it may not."""
    world.broker.groups.put(GroupConfig("all", consume_broadcast_enable=False))
    group = world.broker.clients.consumers.find("all")
    if group is not None:
        group.message_model = BROADCASTING


def shut_topic(world: World) -> None:
    world.broker.topics.put(TopicConfig("T", perm=Perm.WRITE))


def other_flags(world: World) -> None:
    world.broker.topics.put(TopicConfig("T", read_queues=4, write_queues=4, sys_flag=1))


def no_topic(world: World) -> None:
    world.broker.topics.delete("T")


def topic_made_anew(world: World) -> None:
    """Its queues are others, with other messages at the same offsets."""
    world.broker.store.delete_topics(["T"])
    for number in range(20):
        put(world, 1, "blue", b"anew %d" % number)


def leave(world: World) -> None:
    group = world.broker.clients.consumers.find("all")
    if group is not None:
        for link in list(group.members):
            world.broker.clients.consumers.unregister("all", link)


def wake(world: World) -> None:
    world.broker.reading.hold.wake(("T", 1))


def pass_by(world: World) -> None:
    """Nothing happens."""


ACTS = [
    reset, arrive, forbid, allow, fewer_queues, no_lite_pulls, no_reading, new_subscription, group_off, group_on,
    broadcasting, shut_topic, other_flags, no_topic, topic_made_anew, leave,
]  # fmt: skip
acts = st.sampled_from(ACTS)


@st.composite
def streams(draw: st.DrawFn) -> list[bytes | Act]:
    """Requests cut into chunks anywhere, and what happens in between."""
    stream = b""
    for opaque in range(draw(st.integers(1, 14))):
        stream += draw(others(opaque)) if draw(st.integers(0, 7)) == 0 else draw(pulls(opaque))
    if not draw(st.integers(0, 9)):
        stream += b"\x00\x00\x00\x01garbage"
    edges = sorted(draw(st.lists(st.integers(0, len(stream)), max_size=4)))
    steps: list[bytes | Act] = []
    for begin, end in zip([0, *edges], [*edges, len(stream)], strict=True):
        if begin < end:
            steps.append(stream[begin:end])
        if not draw(st.integers(0, 3)):
            steps.append(draw(acts))
    return steps


@pytest.mark.parametrize("examples", [30, pytest.param(200, marks=pytest.mark.long)])
def test_any_traffic_has_the_same_effects(examples: int) -> None:
    @settings(max_examples=examples, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
    @given(steps=streams())
    def compare(steps: list[bytes | Act]) -> None:
        run(lambda: both(steps))

    compare()


@pytest.mark.parametrize("codec", Codec)
def test_plain_pulls_are_taken_as_runs(codec: Codec, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without this, the comparison above could compare the ordinary path with itself."""

    async def work() -> None:
        chunk = b"".join(pull(number, queueOffset=str(number % 20), codec=codec) for number in range(40))
        fast = await both([chunk])
        assert [answer.code for answer in fast.peer.frames] == [ResponseCode.SUCCESS] * 40

        world = World(by_runs=True, sync=False)
        await prepare(world)
        taken: list[bool] = []
        serve = PullRuns._serve

        def watch(self: PullRuns, link: Link, asked: PlainPull, ready: bytes, position: int) -> bool:
            taken.append(serve(self, link, asked, ready, position))
            return taken[-1]

        monkeypatch.setattr(PullRuns, "_serve", watch)
        waits = pull(98, queueOffset=_END, sysFlag=str(PULL_SUSPEND), codec=codec)
        await world.send(chunk + waits + pull(99, queueOffset="1000", codec=codec) + chunk)
        assert taken == [True] * 41 + [False, False] + [True] * 40  # tried once more, as the head of a run
        assert len(world.broker.reading.hold) == 1
        monkeypatch.setattr(Pull, "_pull_again", None)  # what was held is answered without the ordinary path
        arrive(world)
        await world.clock.settle()
        assert world.peer.frames[-1].opaque == 98
        assert world.peer.frames[-1].code == ResponseCode.SUCCESS
        monkeypatch.undo()
        await world.stop()

    run(work)


@pytest.mark.parametrize("act", ACTS)
def test_each_change_is_seen_by_the_next_pull(act: Act) -> None:
    """What lets a pull in is kept from turn to turn: the same pulls before and after a change, of both kinds."""

    async def work() -> None:
        chunk = b"".join(
            pull(number, queueOffset=str(number), maxMsgNums="2", **given)
            for number in range(6)
            for given in ({}, {"subscription": "red", "sysFlag": str(PULL_SUBSCRIPTION)})
        )
        fast = await both([chunk, act, chunk, allow, group_on, chunk])
        assert [answer.code for answer in fast.peer.frames[:12]] == [ResponseCode.SUCCESS] * 12

    run(work)


@pytest.mark.parametrize("then", [arrive, wake, pass_by])
@pytest.mark.parametrize("act", ACTS)
def test_each_change_is_seen_by_pulls_that_are_held(act: Act, then: Act) -> None:
    """They are woken by a message after the change, for no reason, or not before their time is up."""

    async def work() -> None:
        flag = PULL_SUSPEND | PULL_COMMIT_OFFSET
        held = [
            pull(1, sysFlag=str(flag), queueOffset=_END, commitOffset="7"),
            pull(2, sysFlag=str(flag | PULL_SUBSCRIPTION), queueOffset=_END, subscription="blue"),
            pull(3, sysFlag=str(flag), queueOffset=_END, consumerGroup="reds", maxMsgNums="1"),
        ]
        await both([b"".join(held), act, then, b"".join(held)])

    run(work)


def test_what_a_held_pull_brought_along_is_kept_once() -> None:
    """What the group committed while the pull waited must not be undone by its answer."""

    async def work() -> None:
        update = UpdateOffsetHeader(consumer_group="all", topic="T", queue_id=1, commit_offset=9)
        commit = b"".join(map(bytes, encode_command(Command.request(RequestCode.UPDATE_CONSUMER_OFFSET, update))))
        held = pull(1, sysFlag=str(PULL_SUSPEND | PULL_COMMIT_OFFSET), queueOffset=_END, commitOffset="7")

        def committed(world: World) -> None:
            assert world.broker.offsets.query("all", "T", 1) == 9

        await both([held, commit, arrive, committed])

    run(work)


def test_a_peer_that_does_not_read_is_told_alike() -> None:
    """Held pulls that wake then are answered that there is nothing, for their records would wait in memory."""

    async def work() -> None:
        held = b"".join(pull(number, sysFlag=str(PULL_SUSPEND), queueOffset=_END) for number in (1, 2))

        def stop_reading(world: World) -> None:
            world.peer.transport.pause_reading()

        def go_on_reading(world: World) -> None:
            world.peer.transport.resume_reading()

        def is_behind(world: World) -> None:
            (link,) = world.broker._servers[0].links
            assert not link.writable
            assert link.held == 2

        steps: list[bytes | Act] = [held, stop_reading, pull(3), pull(4), is_behind, arrive, pull(5), go_on_reading]
        fast = await both(steps, limits=NetLimits(write_high_bytes=2000))
        codes = {answer.opaque: answer.code for answer in fast.peer.frames}
        assert codes[1] == codes[2] == ResponseCode.PULL_NOT_FOUND

    run(work)


def test_a_pull_that_finds_no_room_to_wait_is_refused_alike() -> None:
    async def work() -> None:
        held = b"".join(pull(number, sysFlag=str(PULL_SUSPEND), queueOffset=_END) for number in range(5))

        def little_room(world: World) -> None:
            world.broker.reading.hold.shares = Shares(3)

        fast = await both([little_room, held, arrive])
        assert [answer.code for answer in fast.peer.frames[:2]] == [ResponseCode.SYSTEM_BUSY] * 2

    run(work)


def test_a_held_pull_whose_link_is_gone_leaves_nothing() -> None:
    async def work() -> None:
        held = b"".join(pull(number, sysFlag=str(PULL_SUSPEND), queueOffset=_END) for number in range(5))

        def gone(world: World) -> None:
            world.peer.transport.close()

        fast = await both([held, gone, arrive])
        assert len(fast.broker.reading.hold) == 0

    run(work)


@pytest.mark.parametrize("name", _NAMES)
@pytest.mark.parametrize("codec", Codec)
def test_each_odd_field(name: str, codec: Codec) -> None:
    async def work() -> None:
        await both(
            [b"".join(pull(number, codec=codec, **dict[str, Any]({name: value})) for number, value in enumerate(_ODD))]
        )

    run(work)


def test_a_link_that_may_hold_no_more_is_refused_alike() -> None:
    async def work() -> None:
        waits = pull(1, queueOffset=_END, sysFlag=str(PULL_SUSPEND))
        fast = await both([waits + pull(2) + waits + pull(3)], limits=NetLimits(held=1))
        assert {answer.opaque: answer.code for answer in fast.peer.frames}[3] == ResponseCode.SYSTEM_BUSY

    run(work)
