"""An asker without a connection."""

from __future__ import annotations

from rocketlake.net.request import Asker, Reply, Request
from rocketlake.protocol.command import Command


class FakeLink(Asker):
    """Keeps the answers it is given."""

    def __init__(self, host: str = "127.0.0.1", port: int = 1) -> None:
        self.remote = (host, port)
        self.address = f"{host}:{port}"
        self.state = {}
        self.on_close = []
        self.closed = False
        self.held = 0
        self.answers: list[Reply] = []

    @property
    def writable(self) -> bool:
        return True

    @property
    def room_to_hold(self) -> int:
        return 100

    def answer(self, request: Request, reply: Reply) -> None:
        self.answers.append(reply)

    def send(self, command: Command) -> None:
        raise AssertionError(f"nothing is sent back on it, but {command}")

    async def invoke(self, command: Command, timeout_ms: float = 3000) -> Command:
        raise AssertionError(f"nothing is asked on it, but {command}")

    def close(self) -> None:
        self.closed = True
