"""The rules that a group of replicas lives by, and broken ones: each of those loses acknowledged records.

Owns        which rules a model runs with, and the table of broken rules.
Must not know   the model that runs them.

The broken rules are not invented: each is a shortcut that a system took, or that looks harmless.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from operator import eq

from msgspec.structs import replace

from rocketlake.controller.decision import Decision, decide
from rocketlake.controller.group import Group
from rocketlake.controller.questions import Alive, Elect, LogKept, Question, Register
from rocketlake.model.positions import PhysicalOffset
from rocketlake.replication.set_changes import Changes
from rocketlake.replication.sync_state_set import Proposal, SyncStateSet
from rocketlake.testing.replicas.promises import Entry

__all__ = ["BROKEN", "OURS", "PUT_BACK", "STUCK", "Rules"]


@dataclass(frozen=True, slots=True)
class Rules:
    """What brokers and controllers do."""

    min_in_sync: int = 2
    decide: Callable[[Group, Question, Alive], Decision] = decide
    sets: type[SyncStateSet] = SyncStateSet
    swaps_compare: bool = True
    """False: a swap writes whatever the revision is."""
    unknown_is_refused: bool = False
    """True: a proposal without an answer counts as refused."""
    resumes: bool = True
    """False: a master that restarts goes on as if it had never been away."""
    tells_life: bool = True
    """False: brokers do not tell which process they are, and what they know (Java's do not)."""
    registers_again: bool = True
    """False: a try without an answer stays open while its joiner is dead."""
    is_put_back: bool = False
    """True: somebody puts older copies of the register back."""
    same: Callable[[Entry, Entry], bool] = eq
    """Are the entries at one place of two logs the same, as far as a replica that connects can tell?"""
    takes_while_short: bool = False
    """True: a master takes messages while its set is too small to acknowledge them, as brokers do for two seconds."""
    changes: type[Changes] = Changes


class _ShrinksFirst(SyncStateSet):
    """A replica that is to leave does not count while that is not recorded yet."""

    _leaving: frozenset[int] = frozenset()

    @property
    def members(self) -> frozenset[int]:
        return super().members - self._leaving

    @property
    def is_short(self) -> bool:
        return len(self.members) < self.copies_min

    def propose(self, joining: Iterable[int] = (), leaving: Iterable[int] = ()) -> Proposal | None:
        leaving = set(leaving)
        proposal = super().propose(joining, leaving)
        if proposal is not None:
            self._leaving = frozenset(leaving)
        return proposal

    def record(self, members: Iterable[int], set_epoch: int) -> bool:
        is_news = super().record(members, set_epoch)
        if is_news:
            self._leaving = frozenset()
        return is_news


class _JoinsWhenRecorded(SyncStateSet):
    """A joiner counts only when it is recorded."""

    @property
    def members(self) -> frozenset[int]:
        return self.recorded


class _AnyTwo(SyncStateSet):
    """As many copies as asked for are enough, in any replicas."""

    def advance(self, own_end: PhysicalOffset) -> PhysicalOffset:
        ends = sorted(self._end_of(each, own_end) for each in {self.broker_id, *self._followers})
        if len(ends) >= self.copies_min:
            self.confirmed = max(self.confirmed, ends[-self.copies_min])
        return self.confirmed


class _MasterAlone(_AnyTwo):
    """The master's own copy is enough (Apache's defaults)."""

    def advance(self, own_end: PhysicalOffset) -> PhysicalOffset:
        self.confirmed = own_end
        return own_end


class _JoinsBelowTheEpoch(SyncStateSet):
    """A joiner may lack what was in the log before this master."""

    def may_join(self, broker_id: int) -> bool:
        reported = self.reported(broker_id)
        return broker_id not in self.members and reported is not None and reported >= self.confirmed


def _keeps_eligible(group: Group, question: Question, alive: Alive) -> Decision:
    """Eligible replicas are not forgotten when the set goes on without them."""
    decision = decide(group, question, alive)
    new = decision.group
    kept = (group.electable - new.in_sync) & new.members.keys() - new.doubtful
    return Decision(replace(new, eligible=kept), decision.code, decision.remark, decision.why)


def _trusts_every_log(group: Group, question: Question, alive: Alive) -> Decision:
    """A machine that lost its memory is as good as any."""
    if isinstance(question, Register):
        question = Register(
            question.broker_id,
            question.address,
            boot_id=question.boot_id,
            log_kept=LogKept.ON_DISK,
            min_in_sync=question.min_in_sync,
        )
    return decide(group, question, alive)


def _lets_proposals_pass(group: Group, question: Question, alive: Alive) -> Decision:
    """A replica that loses the end of its log while it is in no set changes nothing."""
    decision = decide(group, question, alive)
    if isinstance(question, Register) and decision.group.in_sync == group.in_sync:
        same = replace(decision.group, in_sync_epoch=group.in_sync_epoch)
        return Decision(same, decision.code, decision.remark, decision.why)
    return decision


def _lets_its_proposals_pass(group: Group, question: Question, alive: Alive) -> Decision:
    """A master that comes back does not end what it had proposed before."""
    decision = decide(group, question, alive)
    if isinstance(question, Register) and question.broker_id == decision.group.master:
        same = replace(decision.group, in_sync_epoch=group.in_sync_epoch)
        return Decision(same, decision.code, decision.remark, decision.why if same != group else "")
    return decision


class _WaitsForOthers(Changes):
    """A master that was started again waits until somebody joins or leaves."""

    def propose(self, followers: Iterable[int]) -> Proposal | None:
        joining = {each for each in followers if self._may_join(each)}
        return self._replicas.propose(joining, self.leaving & self._replicas.recorded)


def _elects_any(group: Group, question: Question, alive: Alive) -> Decision:
    """Each replica may be elected."""
    if isinstance(question, Elect) and group.in_sync:
        group = replace(group, in_sync=frozenset(group.members), eligible=frozenset(), doubtful=frozenset())
    return decide(group, question, alive)


def _trusts_numbers(group: Group, question: Question, alive: Alive) -> Decision:
    """A log of an epoch that was given again is as good as any of its number."""
    return decide(replace(group, given_again=group.put_back) if isinstance(question, Elect) else group, question, alive)


def _same_number(one: Entry, other: Entry) -> bool:
    """Epochs are compared by their numbers, and no record is."""
    return one[0] == other[0]


OURS = {
    "two copies": Rules(),
    "one copy": Rules(min_in_sync=1),
    "three copies": Rules(min_in_sync=3),
    "one copy, a master goes on at once when it is back": Rules(min_in_sync=1, resumes=False, tells_life=False),
    "two copies, a master goes on at once when it is back": Rules(resumes=False, tells_life=False),
    "two copies, brokers do not tell their lives": Rules(tells_life=False),
}

PUT_BACK = {
    "ours": Rules(is_put_back=True, takes_while_short=True),
    "members do not tell what they know": Rules(is_put_back=True, takes_while_short=True, tells_life=False),
    "the highest number wins, also one that was given again": Rules(
        is_put_back=True, takes_while_short=True, decide=_trusts_numbers
    ),
    "epochs are compared by their numbers alone": Rules(is_put_back=True, takes_while_short=True, same=_same_number),
}
"""With somebody who puts older copies of the register back. Simulated only; all but the first one are broken."""

BROKEN = {
    "shrinks before it is recorded, one copy": Rules(1, sets=_ShrinksFirst),
    "shrinks before it is recorded, two copies": Rules(sets=_ShrinksFirst),
    "a joiner counts when it is recorded": Rules(1, sets=_JoinsWhenRecorded),
    "any two copies are enough": Rules(sets=_AnyTwo),
    "the master alone is enough": Rules(1, sets=_MasterAlone),
    "eligible replicas are kept for ever": Rules(decide=_keeps_eligible),
    "a joiner below the start of the epoch": Rules(sets=_JoinsBelowTheEpoch),
    "each replica may be elected": Rules(decide=_elects_any),
    "a lost page cache is ignored": Rules(decide=_trusts_every_log),
    "swaps do not compare": Rules(swaps_compare=False),
    "a proposal without an answer is dropped": Rules(1, unknown_is_refused=True),
    "a proposal outlives the log of the joiner": Rules(decide=_lets_proposals_pass),
    "what a restarted master had proposed is recorded": Rules(
        1, decide=_lets_its_proposals_pass, resumes=False, tells_life=False
    ),
}

STUCK = {
    "a restarted master waits for a change that nobody makes": (
        Rules(tells_life=False, changes=_WaitsForOthers),
        "all",
    ),
    "a try without an answer stays open while its joiner is dead": (Rules(registers_again=False), "joiner"),
}
"""Rules that lose nothing, and a fault after which the group acknowledges nothing any more. Simulated only."""
