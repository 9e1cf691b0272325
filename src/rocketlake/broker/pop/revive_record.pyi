# Types of revive_record.pyx for Python.
from collections.abc import Sequence

from rocketlake.broker.delay.plain_time import PlainTimes
from rocketlake.codec.record_run import RecordRun
from rocketlake.protocol.bodies.pop import CheckPoint

__all__ = ["ReviveRecords"]

class ReviveRecords:
    def __init__(self, times: PlainTimes, revive_topic: str) -> None: ...
    def check_points(self, points: Sequence[tuple[CheckPoint, int, int]], host: bytes) -> RecordRun | None: ...
