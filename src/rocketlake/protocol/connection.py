"""One connection as a machine without I/O: bytes in, commands out; commands in, bytes out.

Owns        the state of the byte stream of one connection, and its error: the first one ends the machine.
Must not know   sockets, tasks, clocks, what a command means.

Start reading here: net/link.py feeds it from a socket, tests feed it from a list.
"""

from __future__ import annotations

from rocketlake.base.errors import ProtocolError
from rocketlake.protocol.command import Buffer, Command
from rocketlake.protocol.frame import PREFIX_BYTES, Codec, FrameReader, decode_frame, encode_command
from rocketlake.protocol.limits import DEFAULT_LIMITS, WireLimits


class Connection:
    """Both directions of one connection. A peer may change its codec with every frame: each answer follows its request,
    and our own requests are written in `codec`."""

    __slots__ = ("_limits", "_reader", "codec", "error")

    def __init__(self, codec: Codec = Codec.JSON, limits: WireLimits = DEFAULT_LIMITS) -> None:
        self.codec = codec
        self.error: ProtocolError | None = None
        self._limits = limits
        self._reader = FrameReader(limits.frame_bytes, limits.header_bytes)

    @property
    def pending_bytes(self) -> int:
        """Bytes received of a command that is not complete yet."""
        return self._reader.pending_bytes

    @property
    def is_inside(self) -> bool:
        """Has a command begun that is not complete, or not passed by?"""
        return self._reader.is_inside

    def receive_data(self, data: Buffer) -> list[Command]:
        """Takes bytes in any chunking, returns the commands they complete, in order.

        The same as `gather` and then `cut`. On bytes that cannot be accepted `error` is set and the good commands
        before them are returned; the owner serves these and closes. Any further call raises the error.
        """
        return self.cut(self.gather(data))

    def gather(self, data: Buffer) -> bytes:
        """Takes bytes; returns bytes that start at a frame boundary, b"" while a frame begun earlier is incomplete.

        A caller that serves some frames itself does so now, and gives the same bytes to `cut`.
        """
        if self.error is not None:
            raise self.error
        return self._reader.gather(data)

    def cut(self, ready: bytes, position: int = 0) -> list[Command]:
        """The commands of what `gather` returned, from the frame that begins at `position` on."""
        commands: list[Command] = []
        try:
            for frame in self._reader.cut(ready, position):
                commands.append(decode_frame(frame, self._limits))
        except ProtocolError as problem:
            self.error = problem
        else:
            self.error = self._reader.error
        return commands

    def cut_one(self, ready: bytes, position: int) -> tuple[list[Command], int]:
        """`cut` for the frame at `position` alone, and where the next one begins: at the end if it is not whole."""
        size = max(4 + int.from_bytes(ready[position : position + 4], "big"), PREFIX_BYTES)
        end = min(position + size, len(ready))
        return self.cut(ready[position:end]), end

    def begun(self) -> tuple[Command, int] | None:
        """The command that is not complete, without its body, and the body's size; None until its header is there."""
        found = self._reader.begun()
        if found is None:
            return None
        try:
            return decode_frame(found[0], self._limits), found[1]
        except ProtocolError:
            return None  # said when it is complete

    def skip(self) -> None:
        """Do without the command that is not complete."""
        self._reader.skip()

    def forget(self) -> None:
        """The connection is gone: drop what was received of an incomplete command."""
        self._reader = FrameReader()

    def send(self, command: Command) -> list[Buffer]:
        """Command -> buffers to write in order. Raises ProtocolError when it is too large for a frame."""
        return encode_command(command, self.codec)
