"""Header fields that leave a request plain although no kernel reads them.

Owns        their names.
Must not know   which fields a kernel reads (broker/hot).

A request with any other field that its kernel does not read takes the ordinary path. So no kernel passes over a field
that a later release of RocketMQ adds.
"""

from __future__ import annotations

__all__ = ["PASSED_FIELDS"]

PASSED_FIELDS = frozenset(
    {
        "ns", "nsd", "bname", "oway",  # RequestHeader: for a proxy, which takes namespace and broker from them
        "lo",  # TopicHeader: for static topics
        "n",  # the broker's name in a send
        "ReqT",  # Java's client says how it waits for answers
        "__ZONE_NAME", "__ZONE_MODE",  # for a name server; Java adds them to every request
        "AccessKey", "Signature",  # on a broker that knows users, broker/hot/signed_frames.pyx has looked at them
    }
)  # fmt: skip
