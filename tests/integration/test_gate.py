"""A gate that refuses: no send and no pull gets by, whether plain or not, in a chunk or alone, to be held or not."""

from __future__ import annotations

import os
from collections.abc import Iterable

import pytest

from rocketlake.net.dispatcher import Dispatcher, Row
from rocketlake.net.gate.access_gate import AccessGate
from rocketlake.net.request import Reply, Request
from rocketlake.protocol.command import Codec, Command
from rocketlake.protocol.frame import encode_command
from rocketlake.protocol.request_code import RequestCode as Code
from rocketlake.protocol.response_code import ResponseCode
from rocketlake.store.results import PutMessage
from tests.parity.worlds import World, run
from tests.requests import pull_header, send_header


class Gate:
    def __init__(self) -> None:
        self.is_shut = True

    def __call__(self, _request: Request) -> Reply | None:
        return Reply(ResponseCode.NO_PERMISSION, remark="the gate is shut") if self.is_shut else None


def asked(codec: Codec) -> list[bytes]:
    """Sends: plain, delayed (not plain), a batch to a new topic. Pulls: that finds, that would be held, by SQL92."""
    commands = [
        Command.request(Code.SEND_MESSAGE_V2, send_header("T", 1, properties), b"x")
        for properties in ("", "DELAY\x011\x02")
    ]
    commands.append(Command.request(Code.SEND_BATCH_MESSAGE, send_header("New", 1, batch=True), b"no batch"))
    for offset, expression_type in ((0, "TAG"), (1, "TAG"), (0, "SQL92")):
        header = pull_header(
            queue_id=1, offset=offset, wait_ms=60_000,
            subscription="a is null" if expression_type == "SQL92" else "*", expression_type=expression_type,
        )  # fmt: skip
        commands.append(Command.request(Code.PULL_MESSAGE, header))
    return [b"".join(map(bytes, encode_command(command, codec))) for command in commands]


async def gated(gate: Gate, *, early: bool, monkeypatch: pytest.MonkeyPatch) -> World:
    """A broker with one message; the gate is put up before the broker is built (`early`), or when it stands."""

    class Gated(Dispatcher):
        def __init__(self, rows: Iterable[Row], access: AccessGate, audit: None) -> None:
            super().__init__(rows, access, audit)
            self.before.append(gate)

    if early:
        monkeypatch.setattr("rocketlake.broker.broker.Dispatcher", Gated)
    world = World(by_runs=True, sync=False)
    if not early:
        world.broker._dispatcher.before.insert(0, gate)
    await world.start()
    world.broker.store.put(PutMessage("T", 1, b"first"))
    return world


@pytest.mark.parametrize("codec", Codec)
@pytest.mark.parametrize("early", [True, False])
def test_nothing_gets_by(codec: Codec, early: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    async def work() -> None:
        world = await gated(Gate(), early=early, monkeypatch=monkeypatch)
        log_end, requests = world.broker.store.max_physical_offset, asked(codec)
        for chunk in (b"".join(requests), *requests):
            await world.send(chunk)
        assert [frame.code for frame in world.peer.frames] == [ResponseCode.NO_PERMISSION] * 2 * len(requests)
        assert (world.broker.store.max_physical_offset, len(world.broker.reading.hold)) == (log_end, 0)
        assert world.broker.stats.got_messages == 0 and "New" not in world.broker.topics
        await world.stop()

    run(work)


@pytest.mark.parametrize("codec", Codec)
def test_a_gate_is_passed_once(codec: Codec, monkeypatch: pytest.MonkeyPatch) -> None:
    """A pull that the gate let in is held, and answered when a message comes; its next one is refused."""

    async def work() -> None:
        gate = Gate()
        world = await gated(gate, early=False, monkeypatch=monkeypatch)
        gate.is_shut = False
        held = asked(codec)[4]
        await world.send(held)
        assert len(world.broker.reading.hold) == 1 and not world.peer.frames
        gate.is_shut = True
        world.broker.store.put(PutMessage("T", 1, b"second"))
        await world.clock.settle()
        await world.send(held)
        assert [frame.code for frame in world.peer.frames] == [
            ResponseCode.SUCCESS,
            ResponseCode.NO_PERMISSION,
        ]
        await world.stop()

    run(work)


@pytest.mark.skipif(os.environ.get("ROCKETLAKE_PURE") == "1", reason="runs need the kernels")
@pytest.mark.parametrize("codec", Codec)
@pytest.mark.parametrize("behind", [True, False])
def test_a_gate_put_up_while_runs_are_served_sees_the_next_request(codec: Codec, behind: bool) -> None:
    """Before and behind flow control; what let plain requests in before it is not kept. Taken down, runs go on."""

    async def work() -> None:
        world = World(by_runs=True, sync=False)
        await world.start()
        world.broker.store.put(PutMessage("T", 1, b"first"))
        dispatcher = world.broker._dispatcher
        plain = [asked(codec)[number] for number in (0, 3)]
        assert dispatcher.run is not None

        async def codes() -> list[int]:
            del world.peer.frames[:]
            await world.send(b"".join(plain * 2))
            return [frame.code for frame in world.peer.frames]

        assert await codes() == [ResponseCode.SUCCESS] * 4
        gate = Gate()
        dispatcher.before.insert(len(dispatcher.before) if behind else 0, gate)
        assert dispatcher.run is None
        assert await codes() == [ResponseCode.NO_PERMISSION] * 4
        dispatcher.before.remove(gate)
        assert dispatcher.run is not None
        assert await codes() == [ResponseCode.SUCCESS] * 4
        await world.stop()

    run(work)
