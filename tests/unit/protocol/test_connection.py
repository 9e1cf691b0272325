"""The machine of one connection: its first error is final, what came before it is served."""

from __future__ import annotations

import pytest

from rocketlake.base.errors import ProtocolError
from rocketlake.protocol.command import Command
from rocketlake.protocol.connection import Connection
from rocketlake.protocol.frame import Codec
from rocketlake.protocol.limits import WireLimits


def written(*commands: Command, codec: Codec = Codec.JSON) -> bytes:
    machine = Connection(codec)
    return b"".join(bytes(part) for command in commands for part in machine.send(command))


def test_both_codecs_may_be_mixed_on_one_connection() -> None:
    data = written(Command(1)) + written(Command(2), codec=Codec.ROCKETMQ) + written(Command(3))
    assert [command.code for command in Connection().receive_data(data)] == [1, 2, 3]


def test_good_commands_before_garbage_are_returned() -> None:
    machine = Connection()
    assert [command.code for command in machine.receive_data(written(Command(7)) + b"\xff" * 8)] == [7]
    assert machine.error is not None


def test_a_bad_header_in_a_good_frame_ends_the_machine() -> None:
    machine = Connection()
    bad = (4 + 3).to_bytes(4, "big") + b"\x00\x00\x00\x03" + b"{x}"
    assert len(machine.receive_data(written(Command(7)) + bad + written(Command(8)))) == 1
    with pytest.raises(ProtocolError):
        machine.receive_data(written(Command(9)))


def test_the_limits_are_those_of_the_connection() -> None:
    machine = Connection(limits=WireLimits(frame_bytes=200, header_bytes=150, fields=1))
    assert machine.receive_data(written(Command(1, fields={"a": "b"})))
    assert machine.receive_data(written(Command(1, fields={"a": "b", "c": "d"}))) == []
    assert "2 fields" in str(machine.error)


def test_pending_bytes_tell_of_a_frame_that_is_not_complete() -> None:
    machine = Connection()
    data = written(Command(1))
    machine.receive_data(data + data[:9])
    assert machine.pending_bytes == 9
    machine.receive_data(data[9:])
    assert machine.pending_bytes == 0
