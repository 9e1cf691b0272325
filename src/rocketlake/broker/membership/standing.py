"""What a broker is in its group, and what it has to become: the one state machine of its role.

Owns        the states, which news changes the goal, what must end in the moment the news comes.
Must not know   asyncio, requests, how a role is changed (member.py), when the controller is asked.

```
NEW ──registered──> FENCED ──a master is known──> SLAVE <──────┐
                      │ chosen                      │ chosen   │ cut to the new master's log
                      └──────> PROMOTING <──────────┘          │
                                   │ all parts run             │
                                 MASTER ──a newer epoch──> DEPOSED
```

News come in any order and more than once. What counts is the highest master epoch: news of a lower one are late. The
change to a goal takes time, and newer news may set another goal meanwhile; the change is then made from where it ended.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from rocketlake.broker.membership.group_view import GroupView

__all__ = ["Goal", "Standing", "State"]


class State(Enum):
    """What the broker is now."""

    NEW = "new"
    """Without an id, or not registered: it serves nothing that needs a role."""
    FENCED = "fenced"
    """Registered, with no master known: reads of what is confirmed."""
    SLAVE = "slave"
    """Follows the master of its epoch."""
    PROMOTING = "promoting"
    """Chosen, and not ready yet."""
    MASTER = "master"
    """Takes messages; acknowledges them when the set of replicas is large enough."""
    DEPOSED = "deposed"
    """Was master or about to be, and there is a newer epoch: it acknowledges nothing any more."""


@dataclass(frozen=True, slots=True)
class Goal:
    """What the newest news ask for. `master_id`: None if there is no master."""

    epoch: int = 0
    master_id: int | None = None
    master_address: str = ""


_NO_GOAL = Goal()


class Standing:
    """The state of one broker."""

    def __init__(self) -> None:
        self.state = State.NEW
        self.broker_id = 0
        """Our id in the group; 0 before the registration."""
        self.goal = _NO_GOAL
        self.reached = _NO_GOAL
        """The goal that the parts of the broker stand at. While it differs from `goal` a change is under way or due."""
        self.view = GroupView()
        """The newest view with the master and epoch of `goal`."""

    @property
    def leads(self) -> bool:
        """True if the newest news make this broker the master."""
        return self.broker_id != 0 and self.goal.master_id == self.broker_id

    @property
    def is_stuck(self) -> bool:
        """True if this broker is the master and cannot lead."""
        return self.leads and self.state is State.FENCED and self.goal == self.reached

    def registered(self, broker_id: int) -> None:
        """The controller knows this broker by this id."""
        self.broker_id = broker_id
        if self.state is State.NEW:
            self.state = State.FENCED

    def learn(self, view: GroupView) -> bool:
        """True if the goal changed. A master whose epoch is over is deposed in this call.

        A view of the present epoch with a newer set replaces `view` and changes no goal. One of the present epoch that
        names no master (it does not answer the controller now) says nothing: it has been told who it is before.
        """
        if view.master_epoch < self.goal.epoch or self.state is State.NEW:
            return False
        if view.master_epoch == self.goal.epoch:
            if view.master_id == self.goal.master_id and view.set_epoch > self.view.set_epoch:
                self.view = view
            elif self.goal.master_id is None and view.master_id is not None and view.master_epoch:
                return self._aim(view)
            return False
        return self._aim(view)

    def _aim(self, view: GroupView) -> bool:
        self.view = view
        self.goal = Goal(view.master_epoch, view.master_id, view.master_address)
        if self.state in (State.MASTER, State.PROMOTING):
            self.state = State.DEPOSED
        return True

    def disown(self) -> bool:
        """Another broker has our id: neither lead nor follow under it. True if the goal changed."""
        return self.goal.master_id is not None and self._aim(GroupView(master_epoch=self.goal.epoch))

    def promoting(self) -> None:
        """The change to `goal`, this broker as the master, begins."""
        self.state = State.PROMOTING

    def stuck(self, goal: Goal) -> None:
        """This broker cannot lead, so there is no master for it until newer news come."""
        self.reached = goal
        if goal == self.goal:
            self.state = State.FENCED

    def arrived(self, goal: Goal) -> None:
        """The parts of the broker stand at this goal. If news came meanwhile, the next change is due."""
        self.reached = goal
        if goal != self.goal:
            return
        if goal.master_id is None:
            self.state = State.FENCED
        else:
            self.state = State.MASTER if self.leads else State.SLAVE
