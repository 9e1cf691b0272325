# Types of received.pyx for Python.
__all__ = ["Received", "ReceivedWriter"]

class Received:
    start: int
    end: int
    message_id: bytes | None
    handle: bytes | None
    response: bytes | None

class ReceivedWriter:
    def __init__(
        self,
        topic: str,
        broker_name: str,
        starts: dict[int, int],
        pop_ms: int,
        invisible_ms: int,
        revive_queue: int,
        retries_max: int,
    ) -> None: ...
    def write(self, records: bytes) -> list[Received]: ...
