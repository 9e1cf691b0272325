"""Frames recorded between Apache's client and servers: we cut, read, and write the binary ones byte for byte."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from rocketlake.protocol.command import Command
from rocketlake.protocol.connection import Connection
from rocketlake.protocol.frame import Codec
from rocketlake.protocol.request_code import RequestCode

FRAMES = Path(__file__).parent / "frames"
RECORDINGS = sorted(FRAMES.rglob("*.bin"))


def commands_of(recording: Path) -> list[Command]:
    return Connection().receive_data(recording.read_bytes())


@pytest.mark.parametrize("recording", RECORDINGS, ids=lambda p: f"{p.parent.name}-{p.stem}")
def test_every_recorded_frame_is_read(recording: Path) -> None:
    commands = commands_of(recording)
    answers = [command.is_response for command in commands]
    assert commands
    if "requests" in recording.name:
        # Clients also answer what the broker asks them, so a few responses may flow this way.
        assert answers.count(False) > answers.count(True)
    assert all(command.language == "JAVA" for command in commands)


@pytest.mark.parametrize("codec", ["json", "rocketmq"])
def test_a_session_holds_what_a_producer_and_consumers_call(codec: str) -> None:
    codes = Counter(
        command.code for command in commands_of(FRAMES / codec / "broker_requests.bin") if not command.is_response
    )
    expected = {
        RequestCode.SEND_MESSAGE_V2,
        RequestCode.SEND_BATCH_MESSAGE,
        RequestCode.PULL_MESSAGE,
        RequestCode.HEART_BEAT,
        RequestCode.GET_CONSUMER_LIST_BY_GROUP,
        RequestCode.LOCK_BATCH_MQ,
        RequestCode.QUERY_CONSUMER_OFFSET,
        RequestCode.UPDATE_CONSUMER_OFFSET,
    }
    assert expected <= set(codes)


@pytest.mark.parametrize("name", ["broker_requests", "namesrv_requests"])  # Apache's servers answer in JSON
def test_binary_frames_are_written_byte_for_byte(name: str) -> None:
    recorded = (FRAMES / "rocketmq" / f"{name}.bin").read_bytes()
    machine = Connection(Codec.ROCKETMQ)
    written = b"".join(bytes(part) for command in machine.receive_data(recorded) for part in machine.send(command))
    assert machine.error is None
    assert machine.pending_bytes == 0
    assert written == recorded
