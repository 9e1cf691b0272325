"""The wing of connected clients: heartbeats, groups, queue locks, shares of queues.

Owns        how the parts of this wing are put together.
Must not know   the work of the parts.
"""

from __future__ import annotations

from rocketlake.broker.clients.client_ids import ClientIds
from rocketlake.broker.clients.client_sweep import ClientSweep
from rocketlake.broker.clients.consumers import ConsumerTable
from rocketlake.broker.clients.member import Memberships
from rocketlake.broker.clients.member_locks import MemberLocks
from rocketlake.broker.clients.producers import ProducerTable
from rocketlake.broker.clients.push import Push
from rocketlake.broker.clients.queue_locks import QueueLocks
from rocketlake.broker.clients.request_modes import RequestModes
from rocketlake.broker.dispatch_table import client_rows
from rocketlake.broker.processors.assignment import Assignment
from rocketlake.broker.processors.client import Client
from rocketlake.broker.processors.lock import Lock
from rocketlake.broker.wings.cluster import Cluster
from rocketlake.broker.wings.ground import Ground
from rocketlake.broker.wings.wing import Wing

__all__ = ["Clients"]


class Clients(Wing):
    """Keeps the connected clients."""

    def __init__(self, ground: Ground, cluster: Cluster) -> None:
        super().__init__("clients", ground.clock)
        config, clock = ground.config, ground.clock
        self.push = Push(ground.turns, clock, notify_changes=config.now.notify_consumer_changes)
        places = Memberships(config.now.memberships_max, config.now.memberships_of_one_max)
        self.consumers = ConsumerTable(self.push, clock, places)
        self.producers = ProducerTable(clock, places)
        self.queue_locks = QueueLocks(clock)
        self.client_ids = ClientIds(clock, config.now.memberships_max, config.now.memberships_of_one_max)
        self.request_modes = RequestModes(ground.table_path("messageRequestMode.json"), ground.seams.files, clock)
        assignment = Assignment(
            self.consumers,
            cluster.queues.find,
            modes=self.request_modes,
            topics=ground.topics,
            groups=ground.groups,
            role=ground.role,
            kept=ground.kept,
        )
        self.tables = (self.request_modes,)
        client = Client(
            config=config,
            consumers=self.consumers,
            producers=self.producers,
            groups=ground.groups,
            topics=ground.topics,
            auto_create=ground.auto_create,
            client_ids=self.client_ids,
            clock=clock,
        )
        members = MemberLocks(ground.config, cluster.members.others, cluster.net, clock)
        self.rows = tuple(client_rows(client, Lock(self.queue_locks, members, self.client_ids), assignment))
        self.on_link_lost = (self.consumers.asker_gone, self.producers.asker_gone)
        self.adopt(self.push, assignment, members, ClientSweep(self.consumers, self.producers, self.queue_locks, clock))
