"""The wing of pops: messages that are handed out for a while, acknowledgements, messages that come again.

Owns        how the parts of this wing are put together.
Must not know   the work of the parts.
"""

from __future__ import annotations

from rocketlake.broker.dispatch_table import pop_rows
from rocketlake.broker.pop.catch_up import PopCatchUp
from rocketlake.broker.pop.in_flight import InFlight
from rocketlake.broker.pop.order_table import OrderTable
from rocketlake.broker.pop.pop_hold import PopHold
from rocketlake.broker.pop.pop_reads import PopReads
from rocketlake.broker.pop.positions import PopPositions
from rocketlake.broker.pop.progress import PopProgress
from rocketlake.broker.pop.retries import PopRetries
from rocketlake.broker.pop.revive import Revive, ReviveQueue
from rocketlake.broker.pop.revive_log import REVIVE_QUEUES, ReviveLog
from rocketlake.broker.processors.ack import Ack
from rocketlake.broker.processors.pop import PopMessage
from rocketlake.broker.processors.pop_look import PopLook
from rocketlake.broker.rights.pop import PopRights
from rocketlake.broker.wings.delay import Delay
from rocketlake.broker.wings.ground import Ground
from rocketlake.broker.wings.lite import Lite
from rocketlake.broker.wings.plain_runs import ack_run, one_of, plain_reads, point_runs, pop_run
from rocketlake.broker.wings.wing import MasterWing

__all__ = ["Popping"]


class Popping(MasterWing):
    """Hands messages out. It starts behind the timer, which delivers its records."""

    def __init__(self, ground: Ground, delay: Delay, lite: Lite) -> None:
        super().__init__("popping", ground.clock, ground.role)
        config, store, clock = ground.config, ground.store, ground.clock
        self._topics = ground.topics
        self.positions = PopPositions(store, ground.offsets)
        self.orders = OrderTable(ground.table_path("consumerOrderInfo.json"), ground.seams.files, clock)
        self.tables = (self.orders,)
        self.in_flight = InFlight(clock)
        self.progress = PopProgress(self.positions, self.orders, self.in_flight)
        held = config.now.held_pops_max, config.now.held_pulls_of_one_max
        self.hold = PopHold("pop-hold", clock, ground.turns, *held)
        timer_enabled = ground.timer_rules.is_enabled
        rights = PopRights(config, ground.topics, ground.groups, timer_enabled=timer_enabled)
        self.log = log = ReviveLog(config, ground.intake, clock, ground.role.address, point_runs(ground))
        self.reads = reads = PopReads(
            config=config,
            store=store,
            topics=ground.topics,
            offsets=ground.offsets,
            positions=self.positions,
            log=log,
            orders=self.orders,
            in_flight=self.in_flight,
            clock=clock,
            plain=plain_reads(ground),
        )
        pop = PopMessage(
            config=config,
            store=store,
            groups=ground.groups,
            saver=ground.saver,
            rights=rights,
            reads=reads,
            hold=self.hold,
            stats=ground.stats,
            is_ready=lambda: self.catch_up.is_done,
            quotas=ground.quotas,
            clock=clock,
        )
        self.catch_up = PopCatchUp(
            store=store,
            topics=ground.topics,
            groups=ground.groups,
            positions=self.positions,
            done=self.hold.wake_all,
            clock=clock,
        )
        self.notifications = PopHold("notification-hold", clock, ground.turns, *held)
        look = PopLook(config=config, rights=rights, reads=reads, pops=self.hold, hold=self.notifications, clock=clock)
        ack = Ack(
            config=config,
            store=store,
            rights=rights,
            log=log,
            intake=ground.intake,
            offsets=ground.offsets,
            orders=self.orders,
            in_flight=self.in_flight,
            holds=(self.hold, self.notifications),
            lite=lite.acks,
            clock=clock,
        )
        ground.topics.on_change.append(self._topic_changed)
        store.after_cut.append(lambda _end: self._forget_all())
        self.rows = tuple(pop_rows(pop, ack, look))
        self.run = one_of((pop_run(ground, pop), ack_run(ground, ack)))
        self.listeners = (self.hold, self.notifications)
        self.revive = self._make_revive(ground, log, delay)
        self.adopt(self.catch_up, self.revive, self.notifications, self.hold)

    def _make_revive(self, ground: Ground, log: ReviveLog, delay: Delay) -> Revive:
        config, store, clock = ground.config, ground.store, ground.clock
        timer_enabled = ground.timer_rules.is_enabled
        retries = PopRetries(
            config=config,
            store=store,
            intake=ground.intake,
            topics=ground.topics,
            offsets=ground.offsets,
            auto_create=ground.auto_create,
            clock=clock,
            store_address=ground.role.address,
        )
        queues = [
            ReviveQueue(
                queue_id,
                config=config,
                store=store,
                log=log,
                topics=ground.topics,
                groups=ground.groups,
                positions=self.positions,
                retries=retries,
                in_flight=self.in_flight,
                delivered_ms=lambda: delay.timer.next_tick if timer_enabled else clock.now_ms(),
                clock=clock,
            )
            for queue_id in range(REVIVE_QUEUES)
        ]
        return Revive(queues, self.positions, clock, config.now.revive_interval_ms, lambda: self.catch_up.is_done)

    def follow(self) -> None:
        """The new master hands out from where the group knows of check points."""
        self._forget_all()

    def _forget_all(self) -> None:
        self.positions.clear()
        self.in_flight.clear()

    def store_stopped(self) -> None:
        """All check points are on disk."""
        self.positions.settle()

    def _topic_changed(self, topic: str) -> None:
        if self._topics.get(topic) is None:
            self.positions.forget_topic(topic)
            self.in_flight.forget_topic(topic)
            self.orders.forget_topic(topic)
