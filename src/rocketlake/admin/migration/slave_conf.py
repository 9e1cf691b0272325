"""The broker.conf of a slave that follows a given master.

Owns        which settings a slave must have from its master, which masters cannot be followed this way.
Must not know   requests, files.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from rocketlake.admin.migration.peer import Peer, number
from rocketlake.base.errors import UsageError

__all__ = ["check_master", "free_id", "slave_settings"]

_OF_MASTER = (
    "brokerName", "brokerClusterName", "regionId", "messageDelayLevel", "maxMessageSize",
    "mappedFileSizeCommitLog", "mappedFileSizeConsumeQueue", "maxHashSlotNum", "maxIndexNum",
    "flushDiskType", "fileReservedTime", "deleteWhen", "diskMaxUsedSpaceRatio",
    "autoCreateTopicEnable", "autoCreateSubscriptionGroup", "defaultTopicQueueNums", "clusterTopicEnable",
    "brokerTopicEnable", "traceTopicEnable", "msgTraceTopicName", "traceOn", "enablePropertyFilter",
    "timerWheelEnable", "timerPrecisionMs", "timerMaxDelaySec", "timerRollWindowSlot",
    "transactionTimeOut", "transactionCheckMax", "transactionCheckInterval", "rejectTransactionMessage",
)  # fmt: skip
"""The layout of the log, and what clients see of the broker. Addresses, folders and limits are the slave's own."""


def check_master(master: Peer) -> None:
    """UsageError, with the way that is there for it, if this broker cannot be followed as it is."""
    settings, where = master.settings, f"broker {master.address}"
    if settings.get("enableDLegerCommitLog") == "true":
        raise UsageError(
            f"{master.broker_name} is a DLedger group: it has no slaves",
            where=where,
            hint="stop it and take over its store: `rocketlake store convert`, docs/how-to/dledger.md",
        )
    if settings.get("enableControllerMode") == "true":
        controllers = settings.get("controllerAddr", "")
        raise UsageError(
            f"{master.broker_name} is a group under a controller (AutoSwitch): its brokers do not follow by hand",
            where=where,
            hint="have a broker join it: `rocketlake run broker` with enableControllerMode=true and"
            f" controllerAddr={controllers} in its broker.conf, then `rocketlake replicas hand-over`",
        )
    for key in ("duplicationEnable", "enableSlaveActingMaster"):
        if settings.get(key) == "true":
            raise UsageError(
                f"{master.address} has {key}=true: it would take messages as a slave, too",
                where=where,
                hint=f"set {key}=false in its broker.conf and start it again",
            )
    if master.is_slave:
        raise UsageError(f"{master.address} is a slave", hint="give the address of its master")


def free_id(taken: Collection[int]) -> int:
    """The lowest number of a slave that no broker of the name has."""
    return next(broker_id for broker_id in range(1, len(taken) + 2) if broker_id not in taken)


def slave_settings(master: Peer, figures: Mapping[str, str], broker_id: int) -> dict[str, str]:
    """Settings of a slave with this id, but for its addresses and folders."""
    settings = {key: master.settings[key] for key in _OF_MASTER if key in master.settings}
    settings |= {"brokerRole": "SLAVE", "brokerId": str(broker_id)}
    if not master.is_ours:  # ours sends all that it has to an empty slave
        start = number(figures, "commitLogMinOffset", master.address)
        settings["haCopiesFrom"] = str(max(0, start))
    return settings
