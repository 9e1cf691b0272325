"""The figures of a controller as Prometheus reads them.

Owns        the families of the groups of brokers.
Must not know   HTTP, how a master is chosen.
"""

from __future__ import annotations

from collections.abc import Iterator

from rocketlake.controller.controller import Controller
from rocketlake.controller.group import Group
from rocketlake.net.http.exposition import Family, Sample, labels_text, number

__all__ = ["ControllerFamilies"]


class ControllerFamilies:
    """Of one controller."""

    def __init__(self, controller: Controller) -> None:
        self._controller = controller
        self._changes = 0
        controller.decider.on_changed.append(self._changed)

    def _changed(self, _name: str, before: Group, after: Group, _is_ours: bool) -> None:
        self._changes += after.master is not None and after.master != before.master

    def collect(self) -> Iterator[Family]:
        """By group of brokers; a group is named by its brokerName."""
        groups = list(self._controller.decider.groups.items())
        liveness = self._controller.liveness

        def samples(values: Iterator[tuple[str, Group, int]]) -> Iterator[Sample]:
            for name, group, value in values:
                yield labels_text({"cluster_name": group.cluster, "broker_set": name}), value

        alive = samples((name, group, len(liveness.alive(name, group.members.keys()))) for name, group in groups)
        yield Family("active_broker_num", "gauge", "Brokers of the group that live", alive)
        members = samples((name, group, len(group.members)) for name, group in groups)
        yield Family("rocketlake_group_members_known", "gauge", "Brokers that have an id in the group", members)
        in_sync = samples((name, group, len(group.in_sync)) for name, group in groups)
        yield Family("rocketlake_in_sync_replicas", "gauge", "Brokers that must have a message", in_sync)
        masters = samples((name, group, group.master is not None) for name, group in groups)
        yield Family("rocketlake_group_has_master", "gauge", "1 while the group has a master", masters)
        epochs = samples((name, group, group.master_epoch) for name, group in groups)
        yield Family("rocketlake_epoch", "gauge", "Epoch of the group's master", epochs)
        yield number(
            "rocketlake_switches_total", "Masters that were chosen, as seen here", self._changes, kind="counter"
        )
        answers = not self._controller.decider.trouble
        yield number("rocketlake_register_answers", "1 while the controllers' register answers", answers)
