"""Headers of broker administration: configuration, statistics.

Owns        field names.
Must not know   settings. UPDATE_BROKER_CONFIG and GET_BROKER_RUNTIME_INFO have no header fields.
"""

from __future__ import annotations

from rocketlake.protocol.fields import Header, RequestHeader


class BrokerConfigReplyHeader(Header, kw_only=True):
    """Answer of GET_BROKER_CONFIG; `version` is a DataVersion as JSON text, the body a Java properties file."""

    version: str


class BrokerStatsHeader(RequestHeader, kw_only=True):
    """VIEW_BROKER_STATS_DATA."""

    stats_name: str
    stats_key: str
