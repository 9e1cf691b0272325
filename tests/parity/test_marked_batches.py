"""Batches that say which messages of which producer they hold: plain sends beside them change nothing of the check."""

from __future__ import annotations

from typing import Any
from zlib import crc32

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rocketlake.broker.intake.intake import Intake
from rocketlake.broker.stats import BrokerStats
from rocketlake.codec.record_batch import encode_batch
from rocketlake.codec.sequence_mark import parse_mark
from rocketlake.model.message import Message
from rocketlake.net.link import Link
from rocketlake.protocol.command import Codec
from rocketlake.protocol.headers.send import SendReplyHeader
from rocketlake.protocol.request_code import RequestCode
from rocketlake.protocol.response_code import ResponseCode
from tests.parity.test_plain_sends import World, both, request, run


def digested(task: str, first: int, count: int, plan: str = "") -> str:
    """The mark of a request for rows that are not looked at on this path."""
    before, after = (f"{crc32((plan + str(end)).encode()) if end else 0:08x}" for end in (first, first + count))
    return f"{task}/{first}/l/{count}/{before}/{after}"


def batch(opaque: int, mark: str, count: int, *, queue: str = "1", own: str = "", codec: Codec = Codec.JSON) -> bytes:
    properties = {"KEYS": "k", "__RL_SEQ": own} if own else {"KEYS": "k"}
    body = encode_batch(Message.with_properties("T", b"%d" % number, properties) for number in range(count))
    text = f"__RL_SEQ\x01{mark}\x02" if mark else ""
    return request(
        opaque, body=body, properties=text, code=RequestCode.SEND_BATCH_MESSAGE, m="true", queue=queue, codec=codec
    )


@st.composite
def chunks(draw: st.DrawFn) -> list[bytes]:
    found: list[bytes] = []
    for opaque in range(draw(st.integers(1, 8))):
        if draw(st.booleans()):
            found.append(request(opaque, queue="1"))
            continue
        first, batch_id, layout = draw(st.integers(0, 4)), draw(st.integers(0, 1)), draw(st.sampled_from("llm"))
        mark = draw(st.sampled_from(["", "odd", *[f"q/{batch_id}/0/{first}/{layout}"] * 8]))
        own = "q/0/0/0/l" if draw(st.integers(0, 9)) == 0 else ""
        codec, count = draw(st.sampled_from(Codec)), draw(st.integers(1, 4))
        if draw(st.booleans()):
            mark = digested(
                f"q/{batch_id}/0", first, count + (draw(st.integers(0, 9)) == 0), draw(st.sampled_from("aab"))
            )
        found.append(batch(opaque, mark, count, queue=draw(st.sampled_from("01")), own=own, codec=codec))
    joined = b"".join(found)
    edges = sorted(draw(st.lists(st.integers(0, len(joined)), max_size=2)))
    return [joined[start:end] for start, end in zip([0, *edges], [*edges, len(joined)], strict=True) if end > start]


@settings(max_examples=60)
@given(traffic=chunks(), sync=st.booleans())
def test_marked_batches_have_the_same_effects_on_both_paths(traffic: list[bytes], sync: bool) -> None:
    async def work() -> None:
        await both(traffic, sync=sync)

    run(work)


def test_a_replay_between_plain_sends_is_dropped() -> None:
    async def work() -> None:
        plain = [request(number, queue="1") for number in range(3)]
        parts = [plain[0], batch(10, "q/0/0/0/l", 3), plain[1], batch(11, "q/0/0/0/l", 3), plain[2]]
        fast, _ordinary = await both([b"".join(parts)], sync=False)
        answers = {answer.opaque: answer for answer in fast.peer.frames}
        assert {answer.code for answer in answers.values()} == {ResponseCode.SUCCESS}
        assert [answers[number].header(SendReplyHeader).known for number in (10, 11)] == [None, 3]
        assert [answers[number].header(SendReplyHeader).queue_offset for number in (0, 10, 1, 2)] == [0, 1, 4, 5]

    run(work)


def test_marked_batches_are_taken_by_the_chunk_when_they_are_new() -> None:
    async def work() -> None:
        world = World(by_runs=True, sync=False)
        await world.start()
        await world.send(batch(1, "q/0/0/0/l", 3))  # makes the log's first file, and the table's
        taken: list[int] = []
        put_run = world.broker.ground.intake.put_run

        def count(run: Any, counts: Any) -> bool:
            taken.append(len(run))
            return put_run(run, counts)

        world.broker.ground.intake.put_run = count  # type: ignore[method-assign]
        await world.send(batch(2, "q/0/0/3/l", 2) + batch(3, "q/0/0/0/l", 4, queue="2") + batch(4, "r/0/0/0/l", 1))
        assert taken == [7]
        for odd in ("q/0/0/5/m", "q/0/0/6/l", "q/0/0/4/l", "odd"):  # layout, gap, overlap, no mark
            await world.send(batch(5, odd, 1))
        await world.send(batch(6, "q/0/0/5/l", 1, own="q/0/0/0/l"))
        await world.send(batch(5, digested("q/0/0", 5, 2), 1))  # it speaks of two
        await world.send(batch(5, digested("r/0/0", 0, 2, "a"), 2, queue="3"))
        assert taken.pop() == 2
        await world.send(batch(5, digested("r/0/0", 2, 2, "b"), 2, queue="3"))  # what is before it is something else
        assert taken == [7]
        await world.send(batch(7, "q/0/0/5/l", 1) + batch(8, "q/0/0/6/l", 1))  # the second follows from the first
        await world.send(batch(9, "q/2/0/0/l", 1) + batch(10, "q/1/0/0/l", 1))  # nor may the second be taken
        assert taken == [7, 1], "the one behind was new when the first had been stored"
        await world.stop()

    run(work)


@pytest.mark.parametrize(
    ("place", "sync"), [("count_put", False), ("count_put", True), ("when_run_durable", True), ("write_answers", False)]
)
def test_what_is_stored_counts_as_served_whatever_fails_behind_it(
    place: str, sync: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An error of ours behind the append of a run: served again in the ordinary way it would be stored twice."""

    async def work() -> None:
        world = World(by_runs=True, sync=sync)
        await world.start()
        await world.send(batch(1, "q/0/0/0/l", 3))
        await world.clock.run_for(50)
        broker, failures = world.broker, list[str]()

        def fails(*_arguments: Any) -> None:
            failures.append(place)
            raise ZeroDivisionError("a bug")

        owner = {"count_put": BrokerStats, "when_run_durable": Intake, "write_answers": Link}[place]
        monkeypatch.setattr(owner, place, fails)
        await world.send(batch(2, digested("q/1/0", 0, 2), 2) + request(3, queue="1"))
        await world.clock.run_for(50)
        assert broker.store.max_offset("T", 1) == 3 + 2 + 1
        assert failures and world.peer.lost, "the senders learn that no answer comes"
        mark = parse_mark(digested("q/1/0", 0, 2))
        assert broker.sending.sequences.known("T", 1, mark, 2, lambda count: mark.after if count else 0) == 2
        await world.stop()

    run(work)
