"""Runs of plain sends against the ordinary path: the same chunks give the same answers, bytes on disk and counts.

Two brokers in memory get the same traffic. One has an after-hook that does nothing, so it serves every request in the
ordinary way (Dispatcher.run); the other one takes what is plain by the chunk.
"""

from __future__ import annotations

import errno
import gzip
import os
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rocketlake.base.disk.faulty import Fault, FaultPlan
from rocketlake.codec.compression import compress
from rocketlake.codec.record_batch import encode_batch
from rocketlake.model.message import Message
from rocketlake.model.sys_flag import COMPRESSED, LZ4, ZLIB, ZSTD
from rocketlake.net.limits import NetLimits
from rocketlake.protocol.command import FLAG_ONEWAY, Codec, Command
from rocketlake.protocol.frame import encode_command
from rocketlake.protocol.headers.offset import MaxOffsetHeader
from rocketlake.protocol.headers.pull import PULL_SUSPEND, PullHeader
from rocketlake.protocol.request_code import RequestCode
from rocketlake.protocol.response_code import ResponseCode
from tests.parity.worlds import BORN_MS, World, run

if os.environ.get("ROCKETLAKE_PURE") == "1":
    pytest.skip("kernels have a compiled form only", allow_module_level=True)


async def both(chunks: list[bytes], *, sync: bool, limits: NetLimits | None = None) -> tuple[World, World]:
    """Send the chunks to both; compares everything."""
    worlds = World(by_runs=True, sync=sync, limits=limits), World(by_runs=False, sync=sync, limits=limits)
    for world in worlds:
        await world.start()
        for chunk in chunks:
            await world.send(chunk)
        await world.clock.run_for(2000)
    fast, ordinary = worlds
    assert fast.peer.lost == ordinary.peer.lost
    assert sorted(fast.peer.raw) == sorted(ordinary.peer.raw)
    assert fast.counts() == ordinary.counts()
    for world in worlds:
        await world.stop()
    fast_files, ordinary_files = fast.contents(), ordinary.contents()
    assert fast_files.keys() == ordinary_files.keys()
    for path, data in fast_files.items():
        assert data == ordinary_files[path], path
    return worlds


# -- traffic -----------------------------------------------------------------------------------------------------------


def properties_text(pairs: list[tuple[str, str]], *, ended: bool = True) -> str:
    text = "".join(f"{name}\x01{value}\x02" for name, value in pairs)
    return text if ended else text[:-1]


def request(
    opaque: int,
    *,
    topic: str = "T",
    queue: str = "1",
    properties: str = "UNIQ_KEY\x01K1\x02",
    body: bytes = b"body",
    codec: Codec = Codec.ROCKETMQ,
    code: int = RequestCode.SEND_MESSAGE_V2,
    flag: int = 0,
    **fields: str,
) -> bytes:
    known = {
        "a": "group", "b": topic, "c": "TBW102", "d": "4", "e": queue, "f": "0", "g": str(BORN_MS), "h": "0",
        "i": properties, "j": "0", "k": "false", "m": "false",
    }  # fmt: skip
    known.update(fields)
    wanted = {name: value for name, value in known.items() if value != "absent"}
    command = Command(code, opaque=opaque, flag=flag, language="JAVA", version=433, fields=wanted, body=body)
    return b"".join(bytes(part) for part in encode_command(command, codec))


values = st.text(st.sampled_from('ab AB019-_é"\\\x07'), min_size=1, max_size=8)
names = st.sampled_from(
    ["TAGS", "KEYS", "UNIQ_KEY", "WAIT", "color", "a", "size", "DELAY", "TRACE_ON", "MSG_REGION", "CLUSTER", "POP_CK",
     "TIMER_DELAY_SEC", "TRAN_MSG", "INNER_NUM", "INSTANCE_ID"]
)  # fmt: skip
plain_names = st.sampled_from(["TAGS", "KEYS", "color", "size", "WAIT"])
plain_values = st.sampled_from(["a", "red", "k1 k2", " k1  k2 ", "true", "-", "x" * 40])


@st.composite
def property_texts(draw: st.DrawFn) -> str:
    if draw(st.integers(0, 3)):
        pairs = draw(st.lists(st.tuples(plain_names, plain_values), max_size=4, unique_by=lambda pair: pair[0]))
        if draw(st.integers(0, 5)):
            pairs.insert(draw(st.integers(0, len(pairs))), ("UNIQ_KEY", draw(st.sampled_from(["AC11", "7F00", "Z"]))))
    else:
        pairs = draw(st.lists(st.tuples(names, values), max_size=5))
    text = properties_text(pairs, ended=draw(st.booleans()) or not pairs)
    return (
        text if draw(st.integers(0, 9)) else draw(st.sampled_from(["", "\x02", "a", "\x01b\x02", text + "x", "a\x01"]))
    )


@st.composite
def batch_bodies(draw: st.DrawFn) -> bytes:
    messages = []
    for _ in range(draw(st.integers(0, 4))):
        pairs = draw(
            st.lists(st.tuples(st.sampled_from(["TAGS", "KEYS", "UNIQ_KEY", "WAIT"]), plain_values), max_size=3)
        )
        messages.append(Message.with_properties("T", draw(st.binary(max_size=20)), dict(pairs)))
    body = encode_batch(messages)
    if not draw(st.integers(0, 7)):
        body = body[: draw(st.integers(0, len(body)))] + draw(st.binary(max_size=3))
    return body


@st.composite
def sends(draw: st.DrawFn, opaque: int = 0) -> bytes:
    odd = draw(st.integers(0, 5)) == 0
    is_batch = draw(st.integers(0, 4)) == 0
    options: dict[str, Any] = {
        "topic": draw(st.sampled_from(["T", "T", "T", "Many", "New", "%RETRY%g", "Compacted", "SELF_TEST_TOPIC"]))
        if odd
        else draw(st.sampled_from(["T", "T", "Many"])),
        "queue": draw(st.sampled_from(["0", "1", "2", "3", "7", "03", "x", "2147483648"] if odd else ["0", "1", "2"])),
        "properties": draw(property_texts()),
        "body": draw(batch_bodies()) if is_batch else draw(st.binary(max_size=40)),
        "codec": draw(st.sampled_from(Codec)),
        "flag": draw(st.sampled_from([0, 0, 0, FLAG_ONEWAY])),
    }
    if is_batch:
        options["m"] = "true"
        options["code"] = draw(st.sampled_from([RequestCode.SEND_BATCH_MESSAGE, RequestCode.SEND_MESSAGE_V2]))
    if odd:
        field = draw(st.sampled_from("abcdefghijklm"))
        options[field] = draw(st.sampled_from(["absent", "1", "-1", "true", "256", "é", "", "0x1", "4", "16", "192"]))
        if field in ("b", "e", "i"):
            options[{"b": "topic", "e": "queue", "i": "properties"}[field]] = options.pop(field)
    return request(opaque, **options)


def others(opaque: int) -> st.SearchStrategy[bytes]:
    maximum = Command.request(RequestCode.GET_MAX_OFFSET, MaxOffsetHeader(topic="T", queue_id=1))
    pull = Command.request(
        RequestCode.PULL_MESSAGE,
        PullHeader(
            consumer_group="g", topic="T", queue_id=1, queue_offset=0, max_msg_nums=32, sys_flag=PULL_SUSPEND,
            commit_offset=0, suspend_timeout_millis=500, subscription="*", sub_version=0,
        ),
    )  # fmt: skip
    for command in (maximum, pull):
        command.opaque = opaque
    return st.sampled_from([b"".join(map(bytes, encode_command(command))) for command in (maximum, pull)])


@st.composite
def streams(draw: st.DrawFn) -> list[bytes]:
    """Requests cut into chunks anywhere."""
    stream = b""
    for opaque in range(draw(st.integers(1, 14))):
        stream += draw(others(opaque)) if draw(st.integers(0, 7)) == 0 else draw(sends(opaque))
    if not draw(st.integers(0, 9)):
        stream += b"\x00\x00\x00\x01garbage"
    edges = sorted(draw(st.lists(st.integers(0, len(stream)), max_size=4)))
    chunks = [stream[begin:end] for begin, end in zip([0, *edges], [*edges, len(stream)], strict=True)]
    return [chunk for chunk in chunks if chunk]


@pytest.mark.parametrize("examples", [25, pytest.param(150, marks=pytest.mark.long)])
@pytest.mark.parametrize("sync", [False, True])
def test_any_traffic_has_the_same_effects(sync: bool, examples: int) -> None:
    @settings(max_examples=examples, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
    @given(chunks=streams())
    def compare(chunks: list[bytes]) -> None:
        run(lambda: both(chunks, sync=sync))

    compare()


# -- single cases ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("codec", Codec)
@pytest.mark.parametrize("sync", [False, True])
def test_plain_sends_are_taken_by_the_chunk(codec: Codec, sync: bool) -> None:
    """Without this, the comparison above could compare the ordinary path with itself."""

    async def work() -> None:
        chunk = b"".join(request(number, queue=str(number % 4), codec=codec) for number in range(50))
        batch = encode_batch([Message.with_properties("T", b"x", {"UNIQ_KEY": "1"}), Message("T", b"y")])
        chunk += request(50, body=batch, code=RequestCode.SEND_BATCH_MESSAGE, m="true", codec=codec)
        chunk += request(51, body=batch, properties="WAIT\x01true", m="true", codec=codec)  # as Java writes it
        fast, _ordinary = await both([chunk], sync=sync)
        assert [answer.code for answer in fast.peer.frames] == [ResponseCode.SUCCESS] * 52

        world = World(by_runs=True, sync=sync)
        await world.start()
        taken: list[int] = []
        put_run = world.broker.ground.intake.put_run

        def count(run: Any, counts: Any) -> Any:
            taken.append(len(run))
            return put_run(run, counts)

        world.broker.ground.intake.put_run = count  # type: ignore[method-assign]
        await world.send(chunk)
        assert taken == [54, 53]  # the first send makes the log's first file, in the ordinary way
        await world.stop()

    run(work)


@pytest.mark.parametrize(
    "pair",
    ["POP_CK\x01x", "DELAY\x012", "DELAY\x010", "TIMER_DELAY_SEC\x015", "TRAN_MSG\x01true", "INNER_NUM\x012",
     "MSG_REGION\x01here", "CLUSTER\x01mine", "TRACE_ON\x01false", "WAIT\x01false", "WAIT\x01TRUE", "UNIQ_KEY\x01again",
     "TAGS\x01é", "KEYS\x01  a  b a ", "a\x01b\x01c", "\x01b", "a\x01", "a"],
)  # fmt: skip
@pytest.mark.parametrize("sync", [False, True])
def test_each_special_property(pair: str, sync: bool) -> None:
    async def work() -> None:
        chunk = b""
        for number, codec in enumerate(Codec):
            chunk += request(number, properties=f"UNIQ_KEY\x01K\x02{pair}\x02", codec=codec)
            message = Message.with_properties("T", b"x", {"UNIQ_KEY": "1"})
            body = encode_batch([message])
            chunk += request(number + 10, properties=f"UNIQ_KEY\x01K\x02{pair}\x02", body=body, codec=codec, m="true")
        await both([chunk], sync=sync)

    run(work)


@pytest.mark.parametrize("kind", range(8))
def test_bodies_that_begin_as_their_compression_flag_says(kind: int) -> None:
    """And those that do not: both ways refuse the same, and take what is in no compressed form."""

    async def work() -> None:
        bodies = [compress(b"x" * 40, known) for known in (ZLIB, LZ4, ZSTD)]
        bodies += [body[:size] for body in bodies for size in (0, 1, 2, 3, 4)]
        bodies += [
            b"x" * 40,
            b"\x78\x9d" + bodies[0][2:],
            b"\x78\xbb" + bodies[0][2:],
            gzip.compress(b"x" * 40, mtime=0),
        ]
        flag = str(COMPRESSED | kind << 8)
        chunk = b"".join(request(number, body=body, f=flag) for number, body in enumerate(bodies))
        batches = [encode_batch([Message("T", body), Message("T", b"plain")]) for body in bodies]
        chunk += b"".join(request(100 + number, body=body, f=flag, m="true") for number, body in enumerate(batches))
        fast, _ = await both([chunk], sync=False)
        queue = fast.broker.store.queues.find("T", 1)
        assert (queue.max_offset if queue else 0) == {0: 38, 1: 35, 2: 35, 3: 38}.get(kind, 0)  # the empty are refused

    run(work)


def test_a_link_may_have_so_many_sends_wait() -> None:
    """One more is answered SYSTEM_BUSY, whichever way it came."""

    async def work() -> None:
        chunk = b"".join(request(number) for number in range(6))
        fast, _ordinary = await both([chunk], sync=True, limits=NetLimits(held=4))
        codes = [answer.code for answer in fast.peer.frames]
        assert sorted(codes) == [ResponseCode.SUCCESS] * 4 + [ResponseCode.SYSTEM_BUSY] * 2

    run(work)


def test_a_run_ends_before_what_is_not_plain() -> None:
    async def work() -> None:
        plain, odd = request(1), request(2, properties="UNIQ_KEY\x01K\x02DELAY\x013\x02")
        fast, _ = await both([plain + odd + plain, plain], sync=False)
        assert len(fast.peer.frames) == 4

    run(work)


def test_a_file_that_is_full_is_rolled_in_between() -> None:
    async def work() -> None:
        chunk = b"".join(request(number, body=b"x" * 3000) for number in range(10))
        await both([chunk] * 8, sync=False)

    run(work)


@pytest.mark.parametrize("sync", [False, True])
def test_a_disk_that_refuses_is_told_to_each_sender(sync: bool) -> None:
    async def work() -> None:
        outcomes = []
        for by_runs in (True, False):
            plan = FaultPlan()
            world = World(by_runs=by_runs, sync=sync, plan=plan)
            await world.start()
            await world.send(request(1))
            plan.add(Fault("sync" if sync else "pwrite", path_part="commitlog", error=errno.EIO))
            await world.send(request(2) + request(3, codec=Codec.JSON))
            outcomes.append(sorted(world.peer.raw))
            assert {answer.opaque: answer.code for answer in world.peer.frames} == {
                1: ResponseCode.SUCCESS,
                2: ResponseCode.SERVICE_NOT_AVAILABLE,
                3: ResponseCode.SERVICE_NOT_AVAILABLE,
            }
        assert outcomes[0] == outcomes[1]

    run(work)


def test_a_deleted_topic_takes_no_more_runs() -> None:
    async def work() -> None:
        world = World(by_runs=True, sync=False)
        await world.start()
        await world.send(request(1))
        world.broker.topics.delete("T")
        await world.send(request(2, c="NoTemplate"))
        assert [answer.code for answer in world.peer.frames] == [ResponseCode.SUCCESS, ResponseCode.TOPIC_NOT_EXIST]
        await world.stop()

    run(work)


def test_changed_settings_count_for_the_next_chunk() -> None:
    async def work() -> None:
        world = World(by_runs=True, sync=False)
        await world.start()
        await world.send(request(1))
        world.broker.config.update({"traceOn": "false"})
        await world.send(request(2))
        assert [answer.fields["TRACE_ON"] for answer in world.peer.frames if answer.fields] == ["true", "false"]
        await world.stop()

    run(work)


# -- messages for a time -----------------------------------------------------------------------------------------------

TIMES = (
    "TIMER_DELAY_SEC\x015", "TIMER_DELAY_MS\x011500", "TIMER_DELAY_MS\x011", f"TIMER_DELIVER_MS\x01{BORN_MS + 9000}",
    f"TIMER_DELIVER_MS\x01{BORN_MS + 3 * 24 * 3_600_000}",
)  # fmt: skip
ODD_TIMES = (
    "TIMER_DELAY_SEC\x010", "TIMER_DELAY_SEC\x01-1", "TIMER_DELAY_MS\x01007", "TIMER_DELAY_MS\x01x",
    "TIMER_DELAY_MS\x01+5",
    "TIMER_DELAY_SEC\x01999999999999999999", "TIMER_DELAY_SEC\x019223372036854775", f"TIMER_DELIVER_MS\x01{BORN_MS}",
    f"TIMER_DELIVER_MS\x01{BORN_MS + 1}", f"TIMER_DELIVER_MS\x01{BORN_MS + 3 * 24 * 3_600_000 + 1}",
    "TIMER_DELIVER_MS\x015", "TIMER_DELIVER_MS\x019999999999999999999", "TIMER_DELIVER_MS\x01",
    "TIMER_DELAY_SEC\x015\x02TIMER_DELAY_MS\x019000", "TIMER_DELAY_MS\x015000\x02TIMER_OUT_MS\x01500",
    "TIMER_DELAY_MS\x015000\x02TIMER_DEL_UNIQKEY\x01K", "TIMER_DELAY_MS\x015000\x02DELAY\x012",
    "TIMER_DELAY_MS\x015000\x02REAL_QID\x013", "TIMER_DELAY_MS\x015000\x02TRAN_MSG\x01true\x02PGROUP\x01g",
    "TIMER_DELAY_MS\x015000\x02PGROUP\x01g", "TIMER_DELAY_MS\x015000\x02WAIT\x01false", "TIMER_DELAY_LEVEL\x013",
    "TIMER_DELAYED\x015",
)  # fmt: skip


@pytest.mark.parametrize("sync", [False, True])
@pytest.mark.parametrize("broker_name", ["b", "b\u00e9", "b" * 300])
def test_messages_for_a_time_have_the_same_effects(broker_name: str, sync: bool) -> None:
    """Their answers hold the handle by which they may be taken back."""

    async def work() -> None:
        chunk = b""
        for number, asked in enumerate((*TIMES, *ODD_TIMES)):
            for codec in Codec:
                key = f"K{number}" if number % 3 else f"K {number}"
                text = f"UNIQ_KEY\x01{key}\x02{asked}\x02TAGS\x01a\x02KEYS\x01k1 k2\x02"
                topic = ("T", "Many", "Compacted", "%RETRY%g")[number % 4 if number % 5 == 0 else number % 2]
                queue, f = str(number % 3), "4" if number % 7 == 6 else "0"
                chunk += request(number, topic=topic, properties=text, codec=codec, queue=queue, f=f)
                chunk += request(100 + number, codec=codec)
        worlds = [World(by_runs=by_runs, sync=sync, name=broker_name) for by_runs in (True, False)]
        for world in worlds:
            await world.start()
            await world.send(chunk)
            await world.clock.run_for(12_000)
            await world.stop()
        fast, ordinary = worlds
        assert sorted(fast.peer.raw) == sorted(ordinary.peer.raw)
        assert fast.counts() == ordinary.counts()
        assert sum("recallHandle" in (answer.fields or {}) for answer in fast.peer.frames) > 2 * len(TIMES) - 4
        assert fast.contents() == ordinary.contents()

    run(work)


@pytest.mark.parametrize("codec", Codec)
@pytest.mark.parametrize("sync", [False, True])
def test_messages_for_a_time_are_taken_by_the_chunk(codec: Codec, sync: bool) -> None:
    async def work() -> None:
        world = World(by_runs=True, sync=sync)
        await world.start()
        await world.send(request(99))
        taken: list[int] = []
        put_run = world.broker.ground.intake.put_run

        def count(run: Any, counts: Any) -> Any:
            taken.append(len(run))
            return put_run(run, counts)

        world.broker.ground.intake.put_run = count  # type: ignore[method-assign]
        chunk = b"".join(
            request(number, properties=f"UNIQ_KEY\x01K{number}\x02{asked}\x02", codec=codec) + request(50, codec=codec)
            for number, asked in enumerate(TIMES)
        )
        await world.send(chunk)
        assert taken == [2 * len(TIMES)]
        await world.stop()

    run(work)


@pytest.mark.parametrize("takes_times", [True, False])
def test_a_disk_that_refuses_keeps_no_handle_back(takes_times: bool) -> None:
    """A message that is stored, but not safe, can be taken back all the same."""

    async def work() -> None:
        outcomes = []
        for by_runs in (True, False):
            plan = FaultPlan()
            world = World(by_runs=by_runs, sync=True, plan=plan, takes_times=takes_times)
            await world.start()
            await world.send(request(1))
            plan.add(Fault("sync", path_part="commitlog", error=errno.EIO))
            await world.send(b"".join(request(2, properties=f"UNIQ_KEY\x01K\x02{asked}\x02") for asked in TIMES[:3]))
            outcomes.append(sorted(world.peer.raw))
        assert outcomes[0] == outcomes[1]

    run(work)
