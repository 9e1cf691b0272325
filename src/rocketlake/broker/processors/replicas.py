"""What replicas of one broker name tell each other, and what haStatus shows of them.

Owns        the answers about the stream of the log, who is believed about a new master.
Must not know   the stream, how a slave follows.

A word about a new master (EXCHANGE_BROKER_HA_INFO, NOTIFY_MIN_BROKER_ID_CHANGE) may come from any host. Where
`adminAccess` lets its sender in, it is taken; else it is a reason to ask the name servers at once.
"""

from __future__ import annotations

from collections.abc import Callable

from rocketlake.auth.action import AccessRefused
from rocketlake.base.clock import Clock
from rocketlake.base.java.json_text import to_text
from rocketlake.broker.cluster.known_master import KnownMaster
from rocketlake.broker.cluster.outbound import Identity
from rocketlake.broker.cluster.registration import Registration
from rocketlake.broker.cluster.role import MASTER_ID
from rocketlake.net.gate.access_gate import AccessGate
from rocketlake.net.request import Reply, Request
from rocketlake.protocol.bodies.replicas import HaClientEntry, HaConnectionEntry, HaStatus
from rocketlake.protocol.headers.replicas import ExchangeHaHeader, MinBrokerIdChangedHeader
from rocketlake.protocol.request_code import request_name
from rocketlake.replication.follower import FollowerStatus
from rocketlake.replication.leader import SlaveStatus
from rocketlake.store.message_store import MessageStore

__all__ = ["ReplicaTalk"]

_ASK_SECONDS_MIN = 1.0


class ReplicaTalk:
    """The requests of replicas, but for those of the tables."""

    def __init__(
        self,
        *,
        store: MessageStore,
        identity: Callable[[], Identity],
        master: KnownMaster,
        registration: Registration,
        slaves: Callable[[], list[SlaveStatus]],
        following: Callable[[], FollowerStatus],
        sequences_text: Callable[[], str],
        gap_bytes_max: int,
        gate: AccessGate,
        clock: Clock,
    ) -> None:
        """`slaves`, `following`: the stream as it is now; `gap_bytes_max`: a slave that lacks more is not in step.

        `sequences_text`: the table of producer sequences as it was saved last.
        """
        self._store = store
        self._identity = identity
        self._master = master
        self._registration = registration
        self._slaves = slaves
        self._following = following
        self._sequences_text = sequences_text
        self._gap_bytes_max = gap_bytes_max
        self._gate = gate
        self._clock = clock
        self._asked_at = -_ASK_SECONDS_MIN

    def ha_status(self, _request: Request) -> Reply:
        """GET_BROKER_HA_STATUS."""
        if not self._master.role.is_master:
            return Reply(body=HaStatus(client=self._client()).encode())
        connections = [
            HaConnectionEntry(
                addr=slave.address,
                diff=slave.behind,
                in_sync=slave.behind <= self._gap_bytes_max,
                slave_ack_offset=slave.ack,
                transfer_from_where=slave.sent,
                transferred_byte_in_second=slave.bytes_per_second,
            )
            for slave in self._slaves()
        ]
        status = HaStatus(
            connections=connections,
            in_sync_slaves=sum(connection.in_sync for connection in connections),
            master=True,
            master_end=self._store.max_physical_offset,
        )
        return Reply(body=status.encode())

    def _client(self) -> HaClientEntry:
        following = self._following()
        heard_ms = self._clock.now_ms() - round(following.heard_seconds_ago * 1000)
        return HaClientEntry(
            last_read_timestamp=heard_ms,
            last_write_timestamp=heard_ms,
            master_addr=following.master or None,
            max_offset=following.end,
            transferred_byte_in_second=following.bytes_per_second,
        )

    def producer_sequences(self, _request: Request) -> Reply:
        """GET_PRODUCER_SEQUENCES: a text of producerSequences.json, as of a place of the log that is on disk."""
        return Reply(body=self._sequences_text().encode() or b"{}")

    def deleted_topics(self, _request: Request) -> Reply:
        """GET_DELETED_TOPICS: each with the end of the log when it was deleted."""
        return Reply(body=to_text(dict(self._store.deletions.topics)))

    def exchange(self, request: Request) -> Reply:
        """EXCHANGE_BROKER_HA_INFO: a master tells where its log is; a question is answered by a master."""
        header = request.header(ExchangeHaHeader)
        if header.master_ha_address or header.master_address:
            self._hear(request, header.master_address or "", header.master_ha_address or "")
            return Reply()
        if not self._master.role.is_master:
            return Reply(header=ExchangeHaHeader())
        identity = self._identity()
        return Reply(
            header=ExchangeHaHeader(
                master_ha_address=identity.ha_address,
                master_flush_offset=self._store.flushed_offset,
                master_address=identity.address,
            )
        )

    def lowest_id_changed(self, request: Request) -> Reply:
        """NOTIFY_MIN_BROKER_ID_CHANGE: a name server says which broker of the name has the lowest id now."""
        header = request.header(MinBrokerIdChangedHeader)
        if header.min_broker_id == MASTER_ID and header.broker_name == self._identity().broker_name:
            self._hear(request, header.min_broker_addr or "", header.ha_broker_addr or "")
        return Reply()

    def _hear(self, request: Request, address: str, ha_address: str) -> None:
        try:
            self._gate.check_admin(request, request_name(request.code))
        except AccessRefused:
            self._ask_name_servers()
        else:
            self._master.told(address, ha_address)

    def _ask_name_servers(self) -> None:
        now = self._clock.monotonic()
        if now - self._asked_at >= _ASK_SECONDS_MIN and not self._master.role.is_master:
            self._asked_at = now
            self._registration.spawn("told-of-a-master", self._registration.register())
