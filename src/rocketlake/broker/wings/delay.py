"""The wing of delayed messages.

Owns        how the parts of this wing are put together.
Must not know   the work of the parts.
"""

from __future__ import annotations

from rocketlake.broker.delay.progress import DelayProgress
from rocketlake.broker.delay.schedule import DelaySchedule
from rocketlake.broker.wings.ground import Ground
from rocketlake.broker.wings.wing import MasterWing
from rocketlake.model.topic import DELAY_TOPIC

__all__ = ["Delay"]


class Delay(MasterWing):
    """Delivers delayed messages."""

    def __init__(self, ground: Ground) -> None:
        super().__init__("delay", ground.clock, ground.role)
        config, store, clock = ground.config.now, ground.store, ground.clock
        self.progress = DelayProgress(
            ground.table_path("delayOffset.json"),
            ground.seams.files,
            clock,
            lambda: store.kept_end,
            config.delay_version_step,
        )
        self.schedule = DelaySchedule(
            store, ground.levels, self.progress, clock, ground.readable_queue, ground.stats.count_put
        )
        self.tables = (self.progress,)
        self.arrivals = {DELAY_TOPIC: self.schedule.message_parked}
        self.adopt(self.schedule)

    def follow(self) -> None:
        """The new master delivers from where the group knows of deliveries."""
        self.progress.go_back()
