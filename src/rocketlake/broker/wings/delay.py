"""The wing of delayed messages.

Owns        how the parts of this wing are put together.
Must not know   the work of the parts.
"""

from __future__ import annotations

from rocketlake.broker.delay.progress import DelayProgress
from rocketlake.broker.delay.schedule import DelaySchedule
from rocketlake.broker.delay.timer import Timer
from rocketlake.broker.dispatch_table import delay_rows
from rocketlake.broker.processors.recall import Recall
from rocketlake.broker.processors.waiting import Waiting
from rocketlake.broker.wings.ground import Ground
from rocketlake.broker.wings.plain_runs import due_runs, entry_runs
from rocketlake.broker.wings.wing import MasterWing
from rocketlake.model.topic import DELAY_TOPIC, TIMER_TOPIC
from rocketlake.store.timer.timer_store import TimerStore

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
        rules = ground.timer_rules
        timers = TimerStore(
            config.store_folder,
            ground.seams.files,
            file_bytes=store.config.timer_log_file_bytes,
            precision_ms=rules.precision_ms,
        )
        self.timer = Timer(
            store,
            timers,
            rules,
            workers=ground.seams.workers,
            clock=clock,
            readable=ground.readable_queue,
            count_put=ground.stats.count_put,
        )
        self.timer.runs = due_runs(ground)
        self.timer.entries = entry_runs(ground)
        store.after_cut.append(self.timer.log_was_cut)
        recall = Recall(ground.config, ground.topics, ground.intake, rules, clock, store_address=ground.role.address)
        waiting = Waiting(self.timer, ground.cold_requests, lambda: ground.config.now.broker_name, clock)
        self.rows = tuple(delay_rows(recall, waiting))
        self.tables = (self.progress,)
        self.arrivals = {DELAY_TOPIC: self.schedule.message_parked, TIMER_TOPIC: self.timer.message_came}
        self.adopt(self.schedule, *[self.timer] * rules.is_enabled)

    def follow(self) -> None:
        """The new master delivers from where the group knows of deliveries."""
        self.progress.go_back()
        self.timer.give_up()

    def store_stopped(self) -> None:
        self.timer.store_stopped()
