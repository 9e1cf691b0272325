# Types of plain_ack.pyx for Python.
from collections.abc import Callable

from rocketlake.broker.pop.revive_record import ReviveRecords
from rocketlake.codec.record_run import RecordRun

__all__ = ["PlainAckCutter", "PlainAcks"]

class PlainAcks:
    @property
    def run(self) -> RecordRun: ...
    @property
    def taken(self) -> list[tuple[tuple[str, str, int], int, int]]: ...
    @property
    def opaques(self) -> list[int]: ...
    @property
    def end(self) -> int: ...
    @property
    def timer_count(self) -> tuple[str, int, int, int]: ...
    def __len__(self) -> int: ...
    def answers(self) -> bytes: ...

class PlainAckCutter:
    def __init__(
        self,
        bounds: Callable[[str, int], tuple[int, int] | None],
        records: ReviveRecords,
        revive_queues: int,
        broker_name: bytes,
        host: bytes,
        answer: tuple[bytes, ...],
        limits: tuple[int, int],
    ) -> None: ...
    def cut(self, chunk: bytes, position: int, room: int) -> PlainAcks | None: ...
