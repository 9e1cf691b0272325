"""The wing of administrators: topics, groups, offsets, settings, figures.

Owns        how the parts of this wing are put together.
Must not know   the work of the parts.
"""

from __future__ import annotations

from rocketlake.base.settings.config_file import setting_texts
from rocketlake.broker.dispatch_table import Row, group_rows, offset_rows, server_rows, topic_rows
from rocketlake.broker.processors.admin_broker import AdminBroker
from rocketlake.broker.processors.admin_group import AdminGroup
from rocketlake.broker.processors.admin_offset import AdminOffset
from rocketlake.broker.processors.admin_position import AdminPosition
from rocketlake.broker.processors.admin_store import AdminStore
from rocketlake.broker.processors.admin_topic import AdminTopic
from rocketlake.broker.wings.clients import Clients
from rocketlake.broker.wings.cluster import Cluster
from rocketlake.broker.wings.delay import Delay
from rocketlake.broker.wings.ground import Ground
from rocketlake.broker.wings.popping import Popping
from rocketlake.broker.wings.reading import Reading
from rocketlake.broker.wings.sending import Sending
from rocketlake.broker.wings.wing import Wing
from rocketlake.net.request import Reply, Request
from rocketlake.protocol.request_code import RequestCode
from rocketlake.protocol.response_code import ResponseCode

__all__ = ["Administration"]

_OF_BOTH = (RequestCode.CONSUME_MESSAGE_DIRECTLY,)


class Administration(Wing):
    """Serves admin requests, which look into all other wings."""

    def __init__(
        self,
        ground: Ground,
        *,
        cluster: Cluster,
        clients: Clients,
        reading: Reading,
        sending: Sending,
        delay: Delay,
        popping: Popping,
    ) -> None:
        super().__init__("administration", ground.clock)
        self._ground = ground
        self._cluster = cluster
        self._clients = clients
        self._reading = reading
        self._sending = sending
        self._delay = delay
        self._popping = popping
        tables = (*self._topic_rows(), *self._group_rows(), *self._offset_rows())
        self.rows = (*tables, *self._server_rows())
        self.codes_of_master: list[int] = [
            row.code for row in tables if not row.needs.only_reads and row.code not in _OF_BOTH
        ]
        """The requests that change tables: a slave would lose the change with the next copy of its master's."""

    def refuse(self, _request: Request) -> Reply:
        """The answer of a slave to a request that changes tables."""
        return Reply(ResponseCode.SYSTEM_ERROR, remark=self._ground.role.refusal)

    def _topic_rows(self) -> list[Row]:
        ground = self._ground
        return list(
            topic_rows(
                AdminTopic(
                    topics=ground.topics,
                    offsets=ground.offsets,
                    sequences=self._sending.sequences,
                    consumers=self._clients.consumers,
                    store=ground.store,
                    cold_requests=ground.cold_requests,
                    hold=self._reading.hold,
                    stats=ground.stats,
                    kept=ground.kept,
                    registration=self._cluster.registration,
                    identity=ground.role.identity,
                    gate=ground.gate,
                )
            )
        )

    def _group_rows(self) -> list[Row]:
        ground, clients = self._ground, self._clients
        return list(
            group_rows(
                AdminGroup(
                    groups=ground.groups,
                    offsets=ground.offsets,
                    consumers=clients.consumers,
                    producers=clients.producers,
                    stats=ground.stats,
                    kept=ground.kept,
                    push=clients.push,
                    record=ground.store.readable_record,
                    broker_name=lambda: ground.config.now.broker_name,
                    gate=ground.gate,
                )
            )
        )

    def _offset_rows(self) -> list[Row]:
        ground, consumers = self._ground, self._clients.consumers
        offset = AdminOffset(
            topics=ground.topics,
            groups=ground.groups,
            offsets=ground.offsets,
            consumers=consumers,
            store=ground.store,
            cold_requests=ground.cold_requests,
            hold=self._reading.hold,
            stats=ground.stats,
            identity=ground.role.identity,
            pops=self._popping.progress,
            clock=ground.clock,
        )
        position = AdminPosition(consumers, ground.offsets, ground.store, ground.cold_requests, self._clients.push)
        return list(offset_rows(offset, position))

    def _server_rows(self) -> list[Row]:
        ground, hold = self._ground, self._reading.hold
        broker = AdminBroker(
            config=ground.config,
            role=ground.role,
            store_settings=lambda: setting_texts(ground.store.config),
            topics=ground.topics,
            store=ground.store,
            stats=ground.stats,
            request_modes=self._clients.request_modes,
            delays=self._delay.progress,
            schedule=self._delay.schedule,
            timer=self._delay.timer,
            registration=self._cluster.registration,
            followed=lambda: self._cluster.master.address,
            waiting_sends=lambda: ground.intake.waiting,
            held_pulls=lambda: len(hold),
            clock=ground.clock,
        )
        return list(server_rows(broker, AdminStore(ground.store, ground.topics, self._clients.consumers)))
