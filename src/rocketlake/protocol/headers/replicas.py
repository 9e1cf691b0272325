"""Headers of requests between the brokers of a group, and of the name server's word about its lowest id.

Owns        field names.
Must not know   roles, the stream between replicas.
"""

from __future__ import annotations

from rocketlake.protocol.fields import Header, Int64, RequestHeader


class MinBrokerIdChangedHeader(RequestHeader, kw_only=True):
    """NOTIFY_MIN_BROKER_ID_CHANGE, name server to broker, one-way."""

    min_broker_id: Int64 | None = None
    broker_name: str | None = None
    min_broker_addr: str | None = None
    offline_broker_addr: str | None = None
    ha_broker_addr: str | None = None


class ExchangeHaHeader(RequestHeader, kw_only=True):
    """EXCHANGE_BROKER_HA_INFO and its answer. All absent = a question, which a master answers with its own."""

    master_ha_address: str | None = None
    master_flush_offset: Int64 | None = None
    master_address: str | None = None


class ResetMasterFlushOffsetHeader(RequestHeader, kw_only=True):
    """RESET_MASTER_FLUSH_OFFSET, to a slave."""

    master_flush_offset: Int64


class RecordMarkHeader(RequestHeader, kw_only=True):
    """GET_RECORD_MARK (ours), slave to master: what tells the record at this physical offset from any other there?"""

    offset: Int64


class CheckLifeHeader(RequestHeader, kw_only=True):
    """CHECK_LIFE (ours), slave to master: has the controller told you of the process with this mark, under this id?"""

    broker_id: Int64
    mark: str


class CheckLifeReplyHeader(Header, kw_only=True):
    """Answer of CHECK_LIFE: what the stream does not tell of the log. Absent from a broker of before these fields."""

    log_start: Int64 | None = None
    """Its first byte that is still there."""
    log_file_bytes: Int64 | None = None
    """Length of each of its files."""


class RecordMarkReplyHeader(Header, kw_only=True):
    """Answer of GET_RECORD_MARK; "" where the log has nothing."""

    mark: str = ""
