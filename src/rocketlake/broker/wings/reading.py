"""The wing of reads: pulls and held pulls, queries, offsets. It serves on a slave, too.

Owns        how the parts of this wing are put together.
Must not know   the work of the parts.
"""

from __future__ import annotations

from rocketlake.broker.clients.consumers import ConsumerTable
from rocketlake.broker.cluster.known_master import KnownMaster
from rocketlake.broker.cold_rest import ColdRest
from rocketlake.broker.dispatch_table import reading_rows
from rocketlake.broker.long_polling.pull_hold import PullHold
from rocketlake.broker.offsets.unread import UnreadDeletions
from rocketlake.broker.processors.offset import Offset
from rocketlake.broker.processors.pull import Pull
from rocketlake.broker.processors.query import Query
from rocketlake.broker.reads.progress import ReadProgress
from rocketlake.broker.reads.queue_reads import QueueReads
from rocketlake.broker.reads.replica_choice import ReplicaChoice
from rocketlake.broker.reads.waiting_pulls import WaitingPulls
from rocketlake.broker.rights.read import ReadRights
from rocketlake.broker.wings.ground import Ground
from rocketlake.broker.wings.plain_runs import pull_run
from rocketlake.broker.wings.wing import Wing

__all__ = ["Reading"]


class Reading(Wing):
    """Serves consumers. Stops before the listeners, so that each held pull is answered on its link."""

    def __init__(self, ground: Ground, consumers: ConsumerTable, master: KnownMaster) -> None:
        """`master`: of this broker while it is a slave."""
        super().__init__("reading", ground.clock)
        config, store, clock = ground.config, ground.store, ground.clock
        topics, groups, offsets = ground.topics, ground.groups, ground.offsets
        self.hold = PullHold(clock, ground.turns, config.now.held_pulls_max, config.now.held_pulls_of_one_max)
        store.after_cut.append(lambda _end: self.hold.wake_all())  # some wait at an end that is none any more
        cold_rest = ColdRest(ground.turns, lambda: ground.stats.put_times, clock)
        store.residency.rest = cold_rest
        ground.turns.is_brief = lambda: store.residency.waiting > 0 or cold_rest.is_recent
        store.retention.before_drop = UnreadDeletions(offsets, store, ground.turns, clock).look
        pull = Pull(
            ReadRights(config, topics, groups, consumers),
            QueueReads(store, offsets, clock),
            ReadProgress(store, offsets, ground.stats, clock),
            WaitingPulls(config, store, self.hold, clock),
            ReplicaChoice(config, store, ground.role, lambda: master.is_there),
            ground.gate,
            quotas=ground.quotas,
        )
        self.rows = tuple(
            reading_rows(
                pull,
                Query(store, topics, ground.gate),
                Offset(store, topics, groups, consumers, offsets, ground.gate),
            )
        )
        self.run = pull_run(ground, pull)
        self.listeners = (self.hold,)
        self.adopt(self.hold)
