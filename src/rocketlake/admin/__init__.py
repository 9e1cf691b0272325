"""What administrators ask of a cluster, as a library: `from rocketlake.admin import Admin`; blocking: `admin.sync`.

Nothing is imported before it is used: `rocketlake --help` stays quick.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rocketlake.admin.admin import Admin
    from rocketlake.admin.group_reset import GroupReset, Target
    from rocketlake.admin.messages.dead_letters import LetterChoice, letter_error
    from rocketlake.admin.results import (
        BrokerState,
        ConsumeMode,
        ConsumeRate,
        DeadLetterGroup,
        GroupState,
        GroupSummary,
        LettersSettled,
        MasterSwitch,
        Member,
        NewMaster,
        PolicyMade,
        QueueLag,
        QueueState,
        ReplicaGroup,
        ReplicaState,
        TopicMade,
        TopicState,
        UserMade,
    )
    from rocketlake.admin.topic_change import TopicChange

__all__ = [
    "Admin",
    "BrokerState",
    "ConsumeMode",
    "ConsumeRate",
    "DeadLetterGroup",
    "GroupReset",
    "GroupState",
    "GroupSummary",
    "LetterChoice",
    "LettersSettled",
    "MasterSwitch",
    "Member",
    "NewMaster",
    "PolicyMade",
    "QueueLag",
    "QueueState",
    "ReplicaGroup",
    "ReplicaState",
    "Target",
    "TopicChange",
    "TopicMade",
    "TopicState",
    "UserMade",
    "letter_error",
]

_HOMES = {
    "Admin": "rocketlake.admin.admin",
    "GroupReset": "rocketlake.admin.group_reset",
    "LetterChoice": "rocketlake.admin.messages.dead_letters",
    "letter_error": "rocketlake.admin.messages.dead_letters",
    "Target": "rocketlake.admin.group_reset",
    "TopicChange": "rocketlake.admin.topic_change",
}

if not TYPE_CHECKING:  # a checker would take any misspelt name for one of ours

    def __getattr__(name: str) -> Any:
        if name not in __all__:
            raise AttributeError(f"module 'rocketlake.admin' has no attribute {name!r}")
        import importlib

        return getattr(importlib.import_module(_HOMES.get(name, "rocketlake.admin.results")), name)
