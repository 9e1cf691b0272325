"""The fast path of the wings: how runs of plain sends, pulls and acknowledgements come to the dispatcher.

Owns        whether the kernels are there; the order in which runs are tried.
Must not know   which requests are plain (broker/hot).

The modules of broker/hot import the kernels, so they are imported here only after a look whether the kernels exist.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import reduce
from typing import TYPE_CHECKING

from rocketlake.base.pure_import import has_kernel
from rocketlake.broker.intake.sequenced_puts import SequencedPuts
from rocketlake.broker.processors.ack import Ack
from rocketlake.broker.processors.pop import PopMessage
from rocketlake.broker.processors.pull import Pull
from rocketlake.broker.sends.single import SingleSends
from rocketlake.broker.transaction.early_ends import EarlyEnds
from rocketlake.broker.transaction.ledger import HalfLedger
from rocketlake.broker.transaction.ops import TransactionOps
from rocketlake.broker.wings.ground import Ground
from rocketlake.net.dispatcher import Run
from rocketlake.net.request import FrameAsker

if TYPE_CHECKING:
    from rocketlake.broker.delay import entry_run
    from rocketlake.broker.delay.due_runs import DueRuns
    from rocketlake.broker.hot.end_runs import EndRuns
    from rocketlake.broker.lite import lite_run
    from rocketlake.broker.pop.plain_reads import PlainReads
    from rocketlake.broker.pop.point_runs import PointRuns

__all__ = [
    "ack_run",
    "are_there",
    "due_runs",
    "end_runs",
    "entry_runs",
    "lite_runs",
    "one_of",
    "plain_reads",
    "point_runs",
    "pop_run",
    "pull_run",
    "send_run",
    "signed",
]

_KERNELS = (
    "rocketlake.broker.delay.due_run",
    "rocketlake.broker.delay.entry_run",
    "rocketlake.broker.delay.plain_time",
    "rocketlake.broker.hot.pops.ack_body",
    "rocketlake.broker.hot.pops.plain_ack",
    "rocketlake.broker.hot.pops.plain_pop",
    "rocketlake.broker.hot.plain_end",
    "rocketlake.broker.hot.plain_send",
    "rocketlake.broker.hot.plain_pull",
    "rocketlake.broker.hot.signed_frames",
    "rocketlake.broker.lite.lite_run",
    "rocketlake.broker.pop.revive_record",
    "rocketlake.store.log_window",
    "rocketlake.store.plain_fetch",
)


def are_there() -> bool:
    """True if the kernels can be imported: they are compiled, and ROCKETLAKE_PURE=1 is not set."""
    return all(map(has_kernel, _KERNELS))


def end_runs(ground: Ground, ledger: HalfLedger, ops: TransactionOps, early: EarlyEnds) -> EndRuns | None:
    """Lets plain ends of transactions into the runs of sends."""
    if not are_there():
        return None
    from rocketlake.broker.hot.end_runs import EndRuns

    return EndRuns(ground.store, ledger, ops, early, ground.cold_requests)


def send_run(ground: Ground, single: SingleSends, sequenced: SequencedPuts, ends: EndRuns | None) -> Run | None:
    """Serves plain sends, and plain ends between them."""
    if ends is None:
        return None
    from rocketlake.broker.hot.send_runs import SendRuns

    store = ground.store
    sends = SendRuns(
        ground.config,
        single,
        sequenced,
        ends,
        ground.seams.limits.wire,
        ground.timer_rules,
        quotas=ground.quotas,
        clock=ground.clock,
        body_bytes_max=lambda: store.config.body_bytes_max,
        log_end=lambda: store.max_physical_offset,
    )
    ground.topics.on_change.append(lambda _name: sends.forget_topics())
    return sends.serve


def due_runs(ground: Ground) -> DueRuns | None:
    """Stores plain copies of messages that are due."""
    if not are_there():
        return None
    from rocketlake.broker.delay.due_runs import DueRuns

    return DueRuns(ground.store, ground.topics, ground.stats.count_put, precision_ms=ground.timer_rules.precision_ms)


def entry_runs(ground: Ground) -> entry_run.EntryCutter | None:
    """Reads plain messages of the timer topic for the wheel."""
    if not are_there():
        return None
    from rocketlake.broker.delay import entry_run
    from rocketlake.store import log_window

    rules = ground.timer_rules
    log = log_window.LogWindow(ground.store.fetch.window)
    return entry_run.EntryCutter(log, rules.precision_ms, rules.roll_ms)


def lite_runs(ground: Ground) -> lite_run.LiteCutter | None:
    """Reads plain lite messages for the table of light queues."""
    if not are_there():
        return None
    from rocketlake.broker.lite import lite_run
    from rocketlake.store import log_window

    return lite_run.LiteCutter(log_window.LogWindow(ground.store.fetch.window))


def pull_run(ground: Ground, pull: Pull) -> Run | None:
    """Serves plain pulls."""
    if not are_there():
        return None
    from rocketlake.broker.hot.pull_runs import PullRuns

    return PullRuns(pull, ground.store, ground.seams.limits.wire, ground.clock).serve


def ack_run(ground: Ground, ack: Ack) -> Run | None:
    """Serves plain acknowledgements of popped messages."""
    if not are_there():
        return None
    from rocketlake.broker.hot.pops.ack_runs import AckRuns

    return AckRuns(
        ground.config,
        ack,
        ground.timer_rules,
        ground.seams.limits.wire,
        ground.store.disk_wait,
        clock=ground.clock,
        store_address=ground.role.address,
    ).serve


def pop_run(ground: Ground, pop: PopMessage) -> Run | None:
    """Serves plain pops."""
    if not are_there():
        return None
    from rocketlake.broker.hot.pops.pop_runs import PopRuns

    return PopRuns(pop, ground.seams.limits.wire, ground.clock).serve


def point_runs(ground: Ground) -> PointRuns | None:
    """Stores plain check points of pops."""
    if not are_there():
        return None
    from rocketlake.broker.pop.point_runs import PointRuns

    return PointRuns(ground.config, ground.intake, ground.timer_rules, ground.clock)


def plain_reads(ground: Ground) -> PlainReads | None:
    """Reads records in memory for pops."""
    if not are_there():
        return None
    from rocketlake.broker.pop.plain_reads import PlainReads

    return PlainReads(ground.store)


def signed(ground: Ground, run: Run | None) -> Run | None:
    """`run` for a broker that knows users: of each chunk it sees what the user of the link has signed and may send."""
    if run is None or not ground.gate.asks_who:
        return run
    from rocketlake.broker.hot.signed_runs import SignedRuns

    return SignedRuns(ground.gate, run, ground.seams.limits.wire).serve


def one_of(runs: Iterable[Run | None]) -> Run | None:
    """A run that tries these runs at each position, in order; None if the list is empty."""
    every = [run for run in runs if run is not None]
    return reduce(_either, every) if every else None


def _either(first: Run, second: Run) -> Run:
    def serve(link: FrameAsker, ready: bytes, position: int, turn_end: float) -> int:
        end = first(link, ready, position, turn_end)
        return end if end > position else second(link, ready, position, turn_end)

    return serve
