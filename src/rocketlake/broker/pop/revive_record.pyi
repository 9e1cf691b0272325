# Types of revive_record.pyx for Python.
from rocketlake.broker.delay.plain_time import PlainTimes
from rocketlake.codec.record_run import RecordRun

__all__ = ["ReviveRecords"]

class ReviveRecords:
    def __init__(self, times: PlainTimes, revive_topic: str) -> None: ...
    def check_point(
        self,
        broker_name: str,
        group: str,
        topic: str,
        queue_id: int,
        start_offset: int,
        differences: list[int],
        invisible_ms: int,
        pop_ms: int,
        revive_queue: int,
        deliver_ms: int,
        host: bytes,
    ) -> RecordRun | None: ...
