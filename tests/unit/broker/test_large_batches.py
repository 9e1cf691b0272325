"""The line of large batches: one after the other, and no more than fits memory."""

from __future__ import annotations

import asyncio
from typing import Any

from rocketlake.base.clock import ManualClock
from rocketlake.base.errors import UsageError
from rocketlake.broker.large_batches import LargeBatches
from rocketlake.net.in_turns import InTurns
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
    line = LargeBatches(Turns(clock, 1.5), clock)
    steps: list[str] = []

    def batch(name: str, *, fails: bool = False) -> object:
        def store(_request: Request) -> InTurns:
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
