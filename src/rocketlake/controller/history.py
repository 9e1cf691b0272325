"""The history of a group's masters, kept beside its state.

Owns        the keys, the JSON of one switch, how many are kept.
Must not know   why a switch happens, the register.

Switches are numbered by their epoch, so the key says which one it is. Times are of the wall clock: for people only.
"""

from __future__ import annotations

from typing import Final

import msgspec

from rocketlake.base.clock import Millis
from rocketlake.controller.group import Group
from rocketlake.protocol.bodies.replicas import SwitchView

__all__ = ["SWITCHES_MAX", "history_change", "history_prefix", "switch_from_json"]

SWITCHES_MAX: Final = 100


def history_prefix(name: str) -> str:
    """Prefix of the keys of a group's switches."""
    return f"history/{name}/"


def history_change(name: str, before: Group, after: Group, why: str, now: Millis) -> dict[str, bytes | None] | None:
    """The keys that change with the state: the switch is noted, the oldest one goes. None: the master is the same."""
    if after.master_epoch == before.master_epoch:
        return None
    member = after.members.get(after.master) if after.master is not None else None
    switch = SwitchView(
        epoch=after.master_epoch,
        master=after.master,
        address=member.address if member is not None else "",
        before=before.master,
        in_sync=sorted(before.in_sync),
        why=why,
        by=after.by,
        at_ms=now,
    )
    changes: dict[str, bytes | None] = {_key(name, after.master_epoch): msgspec.json.encode(switch)}
    if after.master_epoch > SWITCHES_MAX:
        changes[_key(name, after.master_epoch - SWITCHES_MAX)] = None
    return changes


def switch_from_json(text: bytes) -> SwitchView | None:
    """A value of the history; None if it cannot be read: a history is no reason to fail."""
    try:
        return msgspec.json.decode(text, type=SwitchView)
    except (msgspec.MsgspecError, UnicodeError):
        return None


def _key(name: str, epoch: int) -> str:
    return f"{history_prefix(name)}{epoch:010d}"
