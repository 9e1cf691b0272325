"""One connection as a machine without I/O: bytes in, commands out; commands in, bytes out.

Owns        the state of the byte stream of one connection, and its error: the first one ends the machine.
Must not know   sockets, tasks, clocks, the meaning of commands.

Start reading here: net/input.py feeds it from a socket, tests feed it from a list.
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
        """True while the start of a command has come and its end has not, also if the command is skipped."""
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
        """The commands of what `gather` returned, starting with the frame at `position`."""
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
        """`cut` for the frame at `position` alone; also returns the start of the next frame (or the end)."""
        size = max(4 + int.from_bytes(ready[position : position + 4], "big"), PREFIX_BYTES)
        end = min(position + size, len(ready))
        return self.cut(ready[position:end]), end

    def begun(self) -> tuple[Command, int] | None:
        """The incomplete command without its body, and the size of the body; None until its header has come."""
        found = self._reader.begun()
        if found is None:
            return None
        try:
            return decode_frame(found[0], self._limits), found[1]
        except ProtocolError:
            return None  # `cut` reports the error when the frame is complete

    def skip(self) -> None:
        """Drop the incomplete command, also its bytes that are still to come."""
        self._reader.skip()

    def forget(self) -> None:
        """The connection is gone: drop the bytes of an incomplete command."""
        self._reader = FrameReader()

    def send(self, command: Command) -> list[Buffer]:
        """Command -> buffers to write in order. Raises ProtocolError when it is too large for a frame."""
        return encode_command(command, self.codec)
