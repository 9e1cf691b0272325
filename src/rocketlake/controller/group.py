"""The state of one group of brokers, as controllers agree on it.

Owns        the fields, their JSON form, its version; the names of the keys.
Must not know   when the state changes (decision.py), where it is kept.

docs/internals/controller.md says what the fields mean for safety.
"""

from __future__ import annotations

from typing import Any

import msgspec

from rocketlake.base.errors import StoreError

__all__ = ["EMPTY", "GROUPS", "Group", "Member", "from_json", "group_key", "to_json"]

GROUPS = "groups/"
"""Prefix of the keys of groups; the register puts it below the keys of its cluster."""

FORMAT = 1


class Member(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A broker that has an id in the group."""

    address: str = msgspec.field(name="addr")
    """`host:port` where it serves."""
    ha_address: str = msgspec.field(name="ha", default="")
    """`host:port` where replicas copy its log; empty if it has not said it (Java brokers do not)."""
    check_code: str = msgspec.field(name="check", default="")
    """The text by which the broker took its id; the same text may take it again."""
    boot_id: str = msgspec.field(name="boot", default="")
    """The boot of its machine when it registered; empty if it does not tell (Java brokers do not)."""
    host: str = ""
    """The host that it registered from, if that is not the host of its address."""
    life: str = msgspec.field(name="life", default="")
    """The word of the process that registered last; empty if it does not tell (Java brokers do not)."""
    min_in_sync: int = msgspec.field(name="min", default=1)
    """As a master it acknowledges nothing while the recorded set is smaller: it has promised that."""


class Group(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """All that is recorded of a group."""

    format: int = msgspec.field(name="v", default=FORMAT)
    cluster: str = ""
    next_id: int = msgspec.field(name="nextId", default=1)
    """The id for the next broker. Ids are never given twice, not even those of removed brokers."""
    members: dict[int, Member] = {}
    master: int | None = None
    master_epoch: int = msgspec.field(name="masterEpoch", default=0)
    """Grows with each master and with each loss of one; never goes back, also not when all members are removed."""
    masters: dict[int, int | None] = {}
    """The masters of the newest epochs: what a member knows of one of them can be compared."""
    put_back: int = msgspec.field(name="putBack", default=0)
    """The epoch in which a member showed that the register was an older copy; 0: none has. Before this epoch `masters`
    is the restored copy's; it is no longer compared with what members remember."""
    given_again: int = msgspec.field(name="again", default=0)
    """The copy may have given epochs from this one on, up to `put_back`, that had other masters before."""
    in_sync: frozenset[int] = msgspec.field(name="sss", default=frozenset())
    """The replicas that must hold a record before it is acknowledged (Apache: SyncStateSet)."""
    in_sync_epoch: int = msgspec.field(name="sssEpoch", default=0)
    """Grows with each change of `in_sync`."""
    eligible: frozenset[int] = msgspec.field(name="elr", default=frozenset())
    """Replicas outside of `in_sync` that hold every acknowledged record all the same (Kafka: ELR)."""
    doubtful: frozenset[int] = msgspec.field(name="doubt", default=frozenset())
    """Replicas that held every acknowledged record before their machines lost what was not yet on disk."""
    min_in_sync: int = msgspec.field(name="minIsr", default=1)
    """What the master has promised: it acknowledges nothing while `in_sync` is smaller."""
    by: str = ""
    """The change that wrote this state: `controller/nonce`."""

    def holds_records(self, broker_id: int) -> bool:
        """True if acknowledged records may be lost by a false word about this member."""
        return broker_id == self.master or broker_id in self.electable or broker_id in self.doubtful

    @property
    def electable(self) -> frozenset[int]:
        """The replicas that hold every acknowledged record."""
        return self.in_sync | self.eligible

    @property
    def lives(self) -> dict[int, str]:
        """The word of each member; "" of one that does not tell."""
        return {broker_id: member.life for broker_id, member in self.members.items()}

    def contradicts(self, epoch: int | None, master: int | None) -> bool:
        """True if another one is recorded as the master of this epoch. None: nothing is known."""
        if epoch is None or master is None or epoch < self.put_back:
            return False
        return self.masters.get(epoch, master) != master


EMPTY = Group()
"""A group that nobody has registered in."""

_decoder = msgspec.json.Decoder(Group)


class _Format(msgspec.Struct):
    v: int = FORMAT


def group_key(broker_name: str) -> str:
    """The key of the group with this broker name."""
    return GROUPS + broker_name


def to_json(group: Group) -> bytes:
    """UTF-8, one line, keys and sets in order: equal groups give equal bytes."""
    return msgspec.json.encode(msgspec.to_builtins(group, str_keys=True, order="deterministic"))


def from_json(text: bytes, key: str = "") -> Group:
    """The group in `text`, the value of `key`. StoreError if a newer version wrote it, or if it is broken."""
    try:
        version = msgspec.json.decode(text, type=_Format).v
        if version > FORMAT:
            raise StoreError(
                f"the state of the group has format {version}, this controller reads up to {FORMAT}",
                path=key,
                hint="upgrade this controller: a newer one has written to the same register",
            )
        group = _decoder.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise _broken(key, error) from error
    _check(group, key)
    return group


def _check(group: Group, key: str) -> None:
    members, sets = group.members.keys(), group.in_sync | group.eligible | group.doubtful
    if not sets <= members:
        raise _broken(key, f"{sorted(sets - members)} are no members")
    if group.master is not None and group.master not in group.in_sync:
        raise _broken(key, f"the master {group.master} is not in sss")
    if group.in_sync & group.eligible or group.electable & group.doubtful:
        raise _broken(key, "a replica is in two of sss, elr and doubt")
    if members and max(members) >= group.next_id:
        raise _broken(key, f"nextId {group.next_id} is taken")


def _broken(key: str, reason: Any) -> StoreError:
    return StoreError(
        f"the state of the group is broken: {reason}",
        path=key,
        hint="put back the value that the key had just before (etcdctl get --rev), and no older one: an older one may"
        " name a master that lacks acknowledged messages",
    )
