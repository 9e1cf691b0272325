"""What administrators ask of a cluster, as a library: `from rocketlake.admin import Admin`; blocking: `admin.sync`.

Nothing is imported before it is used: `rocketlake --help` stays quick.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rocketlake.admin.admin import Admin
    from rocketlake.admin.group_reset import GroupReset, Target
    from rocketlake.admin.results import (
        BrokerState,
        ConsumeMode,
        ConsumeRate,
        GroupState,
        GroupSummary,
        Member,
        QueueLag,
        QueueState,
        TopicMade,
        TopicState,
    )
    from rocketlake.admin.topic_change import TopicChange

__all__ = [
    "Admin",
    "BrokerState",
    "ConsumeMode",
    "ConsumeRate",
    "GroupReset",
    "GroupState",
    "GroupSummary",
    "Member",
    "QueueLag",
    "QueueState",
    "Target",
    "TopicChange",
    "TopicMade",
    "TopicState",
]

_HOMES = {
    "Admin": "rocketlake.admin.admin",
    "GroupReset": "rocketlake.admin.group_reset",
    "Target": "rocketlake.admin.group_reset",
    "TopicChange": "rocketlake.admin.topic_change",
}

if not TYPE_CHECKING:  # a checker would take any misspelt name for one of ours

    def __getattr__(name: str) -> Any:
        if name not in __all__:
            raise AttributeError(f"module 'rocketlake.admin' has no attribute {name!r}")
        import importlib

        return getattr(importlib.import_module(_HOMES.get(name, "rocketlake.admin.results")), name)
