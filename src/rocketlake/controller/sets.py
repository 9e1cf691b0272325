"""Who is electable after the set of replicas changes.

Owns        the changes of the three sets: in step, eligible, doubtful.
Must not know   why they change.

Invariant: members of `in_sync` and `eligible` hold every acknowledged record. While `in_sync` is smaller than
`min_in_sync` nothing is acknowledged, so a replica that leaves then goes on holding everything: it stays eligible.
Once the set is large enough the master may acknowledge what only the set holds, so all others are forgotten.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from rocketlake.controller.group import Group

__all__ = ["distrusted", "with_set", "without"]

_NONE: frozenset[int] = frozenset()


def with_set(group: Group, in_sync: frozenset[int]) -> Group:
    """The group with another set, proposed by its master or that of a new master."""
    is_short = len(in_sync) < group.min_in_sync
    return replace(
        group,
        in_sync=in_sync,
        in_sync_epoch=group.in_sync_epoch + 1,
        eligible=group.electable - in_sync if is_short else _NONE,
        doubtful=group.doubtful - in_sync if is_short else _NONE,
    )


def without(group: Group, broker_ids: frozenset[int]) -> Group:
    """The group in which these are neither electable nor the master; it may have no master then."""
    new = replace(group, in_sync=group.in_sync - broker_ids, eligible=group.eligible - broker_ids)
    if new.in_sync != group.in_sync:
        new = replace(new, in_sync_epoch=group.in_sync_epoch + 1)
    if group.master in broker_ids:
        new = replace(new, master=None, master_epoch=group.master_epoch + 1)
    return new


def distrusted(group: Group, known_epoch: int, masters: Iterable[tuple[int, int]]) -> Group:
    """The group whose record is older than what a member knows: its sets name nobody that surely holds everything.

    The longest log of all members is chosen instead, except a log that ends in an epoch number used twice. `masters`:
    epochs that the member knows, with their masters; an epoch that both know alike was used once.
    From here on the recorded masters of earlier epochs are not compared with what members remember: two members that
    remember different ones would contradict the record in turn for ever, each time with a new epoch.
    """
    alike = [epoch for epoch, master in masters if group.masters.get(epoch) == master]
    master_epoch = max(group.master_epoch, known_epoch) + 1
    return replace(
        group,
        master=None,
        master_epoch=master_epoch,
        put_back=master_epoch,
        given_again=max(alike, default=-1) + 1,
        in_sync=_NONE,
        in_sync_epoch=group.in_sync_epoch + 1,
        eligible=_NONE,
        doubtful=frozenset(group.members),
    )
