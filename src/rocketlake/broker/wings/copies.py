"""The wing of table copies: on a master what slaves ask for, on a slave the copies.

Owns        how the parts of this wing are put together; which tables are copied.
Must not know   the work of the parts.
"""

from __future__ import annotations

from collections.abc import Callable

from rocketlake.broker.dispatch_table import replica_rows
from rocketlake.broker.processors.replicas import ReplicaTalk
from rocketlake.broker.producer_sequences.table import ProducerSequences
from rocketlake.broker.producer_sequences.unmarked import UnmarkedLog
from rocketlake.broker.replicas.copied import CopiedTable, DeletedTopics, TimerProgress
from rocketlake.broker.replicas.copies import TableCopies
from rocketlake.broker.replicas.master_calls import MasterCalls
from rocketlake.broker.wings.clients import Clients
from rocketlake.broker.wings.cluster import Cluster
from rocketlake.broker.wings.delay import Delay
from rocketlake.broker.wings.ground import Ground
from rocketlake.broker.wings.replicas import Replicas
from rocketlake.broker.wings.wing import SlaveWing, Wing
from rocketlake.protocol.request_code import RequestCode
from rocketlake.protocol.response_code import ResponseCode

__all__ = ["Copies", "Editions"]


class Editions(Wing):
    """Tells slaves which tables are newer. Stops before the listeners, so that each held question is answered."""

    def __init__(
        self,
        ground: Ground,
        cluster: Cluster,
        clients: Clients,
        *,
        replicas: Replicas,
        delay: Delay,
        sequences: ProducerSequences,
    ) -> None:
        super().__init__("editions", ground.clock)
        editions = ground.editions
        editions.add_settings(topics=ground.topics, groups=ground.groups, request_modes=clients.request_modes)
        editions.add_progress(
            offsets=ground.offsets,
            delays=delay.progress,
            timers=delay.timer,
            sequences=sequences,
            deletions=ground.store.deletions,
        )
        ground.topics.on_change.append(lambda _name: editions.changed())
        ground.groups.on_change.append(editions.changed)
        talk = ReplicaTalk(
            store=ground.store,
            identity=ground.role.identity,
            master=cluster.master,
            registration=cluster.registration,
            slaves=replicas.leader.slaves,
            following=replicas.follower.status,
            sequences_text=lambda: sequences.safe_text,
            gap_bytes_max=ground.config.now.ha_gap_bytes_max,
            gate=ground.gate,
            clock=ground.clock,
        )
        self.rows = tuple(replica_rows(editions, talk, under_controller=ground.config.now.controller_mode))
        self.adopt(editions)


class Copies(SlaveWing):
    """Copies the tables of the master."""

    def __init__(
        self,
        ground: Ground,
        cluster: Cluster,
        clients: Clients,
        delay: Delay,
        sequences: ProducerSequences,
        mark: Callable[[], str],
    ) -> None:
        """`mark`: of the life of this process in its group; "" without a controller."""
        super().__init__("copies", ground.clock)
        code = RequestCode
        self.settings = (
            CopiedTable("topics", code.GET_ALL_TOPIC_CONFIG, ground.topics, "topicConfigTable", may_be_empty=False),
            CopiedTable(
                "groups",
                code.GET_ALL_SUBSCRIPTIONGROUP_CONFIG,
                ground.groups,
                "subscriptionGroupTable",
                may_be_empty=False,
            ),
            CopiedTable(
                "request_modes",
                code.GET_ALL_MESSAGE_REQUEST_MODE,
                clients.request_modes,
                "messageRequestModeMap",
                may_be_empty=True,
                absent=(ResponseCode.REQUEST_CODE_NOT_SUPPORTED,),
            ),
        )
        progress = (
            CopiedTable("offsets", code.GET_ALL_CONSUMER_OFFSET, ground.offsets, "offsetTable", may_be_empty=True),
            CopiedTable("delays", code.GET_ALL_DELAY_OFFSET, delay.progress, "offsetTable", may_be_empty=True),
            TimerProgress("timers", code.GET_TIMER_CHECK_POINT, delay.timer.follow),
        )
        ours_only = (
            # Without producers, too, it says up to where the log has no mark: a slave need not look there.
            CopiedTable(
                "sequences",
                code.GET_PRODUCER_SEQUENCES,
                sequences,
                "logOffset",
                may_be_empty=True,
                absent=(ResponseCode.REQUEST_CODE_NOT_SUPPORTED,),
            ),
            DeletedTopics("deletions", code.GET_DELETED_TOPICS, ground.store),
        )
        self.tables_of_master = TableCopies(
            self.settings,
            progress,
            ours_only=ours_only,
            calls=MasterCalls(cluster.net, lambda: ground.role.broker_id, mark),
            master=cluster.master,
            saver=ground.saver,
            safe_end=lambda: ground.store.durability.readable_end,
            ask_for_master=cluster.registration.register,
            clock=ground.clock,
        )
        self.adopt(self.tables_of_master, UnmarkedLog(sequences, ground.store, ground.clock))
