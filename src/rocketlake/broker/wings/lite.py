"""The wings of lite topics: light queues, which a slave knows, too; subscriptions, pops of lite messages.

Owns        how the parts of this wing are put together.
Must not know   the work of the parts.
"""

from __future__ import annotations

from rocketlake.broker.clients.client_ids import ClientIds
from rocketlake.broker.dispatch_table import lite_rows
from rocketlake.broker.held.wait_list import WaitList
from rocketlake.broker.lite.acks import AckLite
from rocketlake.broker.lite.expiry import LiteExpiry
from rocketlake.broker.lite.light_file import LightFile
from rocketlake.broker.lite.light_queues import LightQueues
from rocketlake.broker.lite.light_reads import LightReads
from rocketlake.broker.lite.lite_messages import LiteMessages
from rocketlake.broker.lite.progress import LiteProgress
from rocketlake.broker.lite.subscriptions import Subscriptions
from rocketlake.broker.lite.wildcards import WildcardGroups
from rocketlake.broker.pop.order_table import OrderTable
from rocketlake.broker.processors.lite_admin import LiteAdmin
from rocketlake.broker.processors.lite_subscription import LiteSubscriptions
from rocketlake.broker.processors.pop_lite import LiteHold, PopLite
from rocketlake.broker.rights.lite import LiteRights
from rocketlake.broker.wings.ground import Ground
from rocketlake.broker.wings.plain_runs import lite_runs
from rocketlake.broker.wings.wing import MasterWing, Wing

__all__ = ["LightTable", "Lite"]

_PRUNE_SECONDS = 3600.0


class LightTable(Wing):
    """Knows the light queues, in either role: a slave that becomes the master need not read the whole log for it."""

    def __init__(self, ground: Ground) -> None:
        super().__init__("light-table", ground.clock)
        self.messages = LiteMessages(ground.store, lite_runs(ground))
        worker = ground.seams.workers("light-table")
        self.queues = LightQueues(
            config=ground.config,
            store=ground.store,
            topics=ground.topics,
            messages=self.messages,
            file=LightFile(ground.table_path("lightQueues"), ground.seams.files, worker, ground.store),
            clock=ground.clock,
        )
        self.listeners = (self.queues,)
        self.adopt(self.queues)


class Lite(MasterWing):
    """Serves lite topics. It starts before the wing of sends, which number lite messages."""

    def __init__(self, ground: Ground, table: LightTable, client_ids: ClientIds) -> None:
        super().__init__("lite", ground.clock, ground.role)
        config, store, clock = ground.config, ground.store, ground.clock
        self.queues = queues = table.queues
        self.subscriptions = Subscriptions(clock)
        self._orders = OrderTable(ground.table_path("liteOrderInfo.json"), ground.seams.files, clock)
        self._reads = LightReads(store, queues)
        self._progress = progress = LiteProgress(ground.offsets, self._orders, queues)
        rights = LiteRights(config, ground.topics, ground.groups)
        self.hold: LiteHold = WaitList(
            "lite-hold", clock, ground.turns, config.now.held_pops_max, config.now.held_pulls_of_one_max
        )
        self.wildcards = wildcards = WildcardGroups(store, table.messages, rights, queues, progress, clock)
        changes = LiteSubscriptions(config, rights, self.subscriptions, wildcards, progress, client_ids)
        pop = PopLite(
            config=config,
            store=store,
            rights=rights,
            subscriptions=self.subscriptions,
            join=changes.join,
            wildcards=wildcards,
            reads=self._reads,
            progress=progress,
            hold=self.hold,
            stats=ground.stats,
            client_ids=client_ids,
            is_ready=lambda: queues.is_ready,
            clock=clock,
        )
        self.acks = AckLite(rights, queues, progress, self.subscriptions, clock)
        queues.on_message = self.subscriptions.note
        queues.on_ready = changes.look_at_all
        self.subscriptions.wake = self.hold.wake
        self.subscriptions.noted = wildcards.note
        wildcards.wake_one = self.hold.wake_one
        self._topics = ground.topics
        ground.topics.on_change.append(self._topic_changed)
        store.after_cut.append(lambda _end: self._forget_all())
        expiry = LiteExpiry(
            config=config,
            queues=queues,
            topics=ground.topics,
            groups=ground.groups,
            offsets=ground.offsets,
            orders=self._orders,
            clock=clock,
        )
        admin = LiteAdmin(
            lite_topics_max=lambda: config.now.lite_topics_max,
            store=store,
            cold_requests=ground.cold_requests,
            topics=ground.topics,
            groups=ground.groups,
            offsets=ground.offsets,
            queues=queues,
            reads=self._reads,
            progress=progress,
            subscriptions=self.subscriptions,
            look=changes.look_anew,
            clock=clock,
        )
        self.rows = tuple(lite_rows(pop, changes, admin))
        self.adopt(self.subscriptions, wildcards, expiry, self.hold)

    async def start(self) -> None:
        """Begin to hold, also after a stop."""
        self.hold.is_closed = False
        await super().start()
        self.queues.lead()
        self.every("prune", _PRUNE_SECONDS, self._orders.prune)

    async def stop(self) -> None:
        """Give no numbers from now on."""
        self.queues.follow()
        await super().stop()

    def follow(self) -> None:
        """Clients subscribe at the new master."""
        self.subscriptions.clear()
        self._forget_all()

    def _forget_all(self) -> None:
        self.wildcards.clear()
        self._reads.clear()
        self._orders.clear()

    def _topic_changed(self, topic: str) -> None:
        if self._topics.get(topic) is None:
            self.subscriptions.remove_parent(topic)
            self.wildcards.remove_parent(topic)
            self._progress.forget_parent(topic)
            self._reads.clear()
