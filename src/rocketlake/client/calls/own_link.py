"""One connection of one thread that waits for its answers itself, and says where their bodies shall lie.

Owns        the numbers of its requests, reading an answer in two steps: its head, then its body to the caller's place.
Must not know   what is asked; how connections are opened, encrypted and signed (net/client.py, `Way`).

Not for an event loop: each call blocks. For readers that take one large answer after the other: no copy of a body is
made, and no other thread is woken. Any LinkError or ProtocolError is final: close the link, and ask in the usual way.
"""

from __future__ import annotations

from rocketlake.base.errors import LinkError, ProtocolError
from rocketlake.net.client import Way
from rocketlake.protocol.command import Command
from rocketlake.protocol.connection import Connection
from rocketlake.protocol.frame import PREFIX_BYTES

__all__ = ["OwnLink"]


class OwnLink:
    """An open connection to `address`. Raises LinkError if it cannot be opened."""

    def __init__(self, way: Way, timeout_seconds: float) -> None:
        """`timeout_seconds`: how long one read of the socket may wait for bytes."""
        self.address = way.address
        self._sign = way.sign
        self._asked = 0
        self._socket = way.open()
        self._socket.settimeout(timeout_seconds)

    def close(self) -> None:
        """Answers that are on their way are lost."""
        self._socket.close()

    def ask(self, command: Command) -> int:
        """Send a request; returns the number that its answer will have."""
        if self._sign is not None:
            self._sign(command)
        self._asked += 1
        command.opaque = self._asked & 0x7FFFFFFF
        try:
            self._socket.sendall(b"".join(Connection().send(command)))
        except OSError as error:
            raise LinkError(f"link to {self.address} broke: {error}") from None
        return command.opaque

    def head(self) -> tuple[Command, int]:
        """The next answer, to whichever request, without its body, and the bytes of the body: `read` these next."""
        machine = Connection()
        prefix = self._bytes(PREFIX_BYTES)
        commands = machine.receive_data(prefix)
        if machine.error is None:
            commands += machine.receive_data(self._bytes(int.from_bytes(prefix[5:8], "big")))
        if machine.error is not None:
            raise machine.error
        begun = (commands[0], 0) if commands else machine.begun()
        if begun is None or not begun[0].is_response:
            raise ProtocolError("this is no answer to a pull", where=self.address)
        return begun

    def read(self, place: memoryview) -> None:
        """Fill `place` with the next bytes."""
        position, size, receive = 0, len(place), self._socket.recv_into
        while position < size:
            try:
                count = receive(place[position:])
            except OSError as error:
                raise LinkError(f"link to {self.address} broke: {error}") from None
            if not count:
                raise LinkError(f"{self.address} closed the link")
            position += count

    def _bytes(self, size: int) -> bytes:
        found = bytearray(size)
        self.read(memoryview(found))
        return bytes(found)
