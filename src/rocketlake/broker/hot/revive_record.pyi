# Types of revive_record.pyx for Python.
from rocketlake.broker.delay.plain_time import PlainTimes

__all__ = ["ReviveRecords"]

class ReviveRecords:
    def __init__(self, times: PlainTimes, revive_topic: str) -> None: ...
