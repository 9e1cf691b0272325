"""The line of large batches: one after the other, no more than fits memory, and none whose sender has given up."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from rocketlake.base.clock import ManualClock
from rocketlake.base.errors import UsageError
from rocketlake.broker.config import BrokerConfig, LiveConfig
from rocketlake.broker.intake.large_batches import LargeBatches
from rocketlake.net.reply_steps import ReplySteps
from rocketlake.net.request import HELD, Reply, Request
from rocketlake.net.turns import Turns
from rocketlake.protocol.command import Command
from rocketlake.protocol.response_code import ResponseCode


class Asker:
    """The link's side of a request."""

    closed = False
    address = "peer:1"

    def __init__(self) -> None:
        self.answers: list[Reply] = []

    def answer(self, _request: Request, reply: Reply) -> None:
        self.answers.append(reply)


async def test_one_after_the_other_in_turns_and_too_much_is_refused(caplog: Any) -> None:
    clock, asker = ManualClock(), Asker()
    line = LargeBatches(LiveConfig(BrokerConfig(send_age_max_ms=60_000)), Turns(clock, 1.5), clock)
    steps: list[str] = []

    def batch(name: str, *, fails: bool = False) -> object:
        def store(_request: Request) -> ReplySteps:
            for _ in range(3):
                clock.advance(1000)
                steps.append(name)
                yield
            if fails:
                raise UsageError("not good")
            return Reply(remark=name)

        request = Request(Command(310, body=bytes(24 << 20)), asker, 0.0)  # type: ignore[arg-type]
        return line.serve(request, store)

    assert batch("a") is HELD and batch("b", fails=True) is HELD
    refused = batch("c")
    assert isinstance(refused, Reply) and refused.code == ResponseCode.SYSTEM_BUSY
    assert "[OVERLOAD] a batch of 25165824 bytes of peer:1 is refused: 2 large batches with 50331648" in caplog.text
    turns = 0
    while len(asker.answers) < 2:
        turns += 1
        await asyncio.sleep(0)
    assert steps == ["a"] * 3 + ["b"] * 3
    assert turns >= 4
    assert [answer.remark for answer in asker.answers] == ["a", "not good"]
    assert batch("d") is HELD  # there is room again


@pytest.mark.parametrize(
    ("config", "stored"),
    [
        (BrokerConfig(), ["a", "b"]),
        (BrokerConfig(send_age_max_ms=5000), ["a", "b", "c"]),
        (BrokerConfig(fast_failure=False), ["a", "b", "c"]),
    ],
)
async def test_who_stood_in_line_for_too_long_sends_again_so_nothing_is_stored(
    config: BrokerConfig, stored: list[str]
) -> None:
    clock, asker = ManualClock(), Asker()
    line = LargeBatches(LiveConfig(config), Turns(clock, 0.5), clock)
    found: list[str] = []

    def batch(name: str) -> None:
        def store(_request: Request) -> ReplySteps:
            clock.advance(900)
            yield
            found.append(name)
            return Reply(remark=name)

        line.serve(Request(Command(310, body=b"many"), asker, clock.monotonic()), store)  # type: ignore[arg-type]

    for name in ("a", "b", "c"):
        batch(name)
    for _turn in range(20):
        await asyncio.sleep(0)
    assert len(asker.answers) == 3
    assert found == stored
    last = asker.answers[-1]
    if stored[-1] == "b":
        assert last.code == ResponseCode.SYSTEM_BUSY and "stood in line for 1.8 s" in (last.remark or "")
    else:
        assert last.remark == "c"


async def test_at_the_end_the_batch_in_work_is_finished_and_the_others_are_refused() -> None:
    clock, asker = ManualClock(), Asker()
    line = LargeBatches(LiveConfig(BrokerConfig(fast_failure=False)), Turns(clock, 0.5), clock)
    stored: list[str] = []

    def batch(name: str) -> None:
        def store(_request: Request) -> ReplySteps:
            for _ in range(3):
                clock.advance(1000)
                yield
            stored.append(name)
            yield
            return Reply(remark=name)

        line.serve(Request(Command(310, body=b"many"), asker, clock.monotonic()), store)  # type: ignore[arg-type]

    for name in ("a", "b", "c"):
        batch(name)
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert not stored and not asker.answers
    line.end(lambda _request: Reply(remark="a slave"))
    assert (stored, [answer.remark for answer in asker.answers]) == (["a"], ["a", "a slave", "a slave"])
    for _turn in range(20):
        await asyncio.sleep(0)
    batch("d")
    line.end(lambda _request: Reply(remark="a slave"))
    assert (stored, len(asker.answers)) == (["a"], 4), "a batch that was not begun is refused"
