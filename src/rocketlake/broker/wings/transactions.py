"""The wing of transactions: ends of half messages, questions about half messages without an end.

Owns        how the parts of this wing are put together.
Must not know   the work of the parts.
"""

from __future__ import annotations

from rocketlake.broker.dispatch_table import transaction_rows
from rocketlake.broker.processors.half_list import HalfList
from rocketlake.broker.processors.transaction import Transaction
from rocketlake.broker.sends.committed import CommittedSends
from rocketlake.broker.transaction.check import TransactionCheck
from rocketlake.broker.transaction.check_back import CheckBack
from rocketlake.broker.transaction.early_ends import EarlyEnds
from rocketlake.broker.transaction.ledger import HalfLedger
from rocketlake.broker.transaction.named_half import NamedHalf
from rocketlake.broker.transaction.ops import TransactionOps
from rocketlake.broker.transaction.progress import TransactionProgress
from rocketlake.broker.transaction.resume import ResumeCheck
from rocketlake.broker.wings.clients import Clients
from rocketlake.broker.wings.ground import Ground
from rocketlake.broker.wings.plain_runs import end_runs
from rocketlake.broker.wings.wing import MasterWing
from rocketlake.codec.host import encode_host

__all__ = ["Transactions"]


class Transactions(MasterWing):
    """Ends transactions."""

    def __init__(self, ground: Ground, clients: Clients) -> None:
        super().__init__("transactions", ground.clock, ground.role)
        config, store, clock = ground.config, ground.store, ground.clock
        self.ledger = ledger = HalfLedger()
        ops = TransactionOps(store, ledger, config, clock, lambda: encode_host(*ground.role.address()))
        self.check = TransactionCheck(
            config=config,
            store=store,
            topics=ground.topics,
            ledger=ledger,
            ops=ops,
            progress=TransactionProgress(store, ground.offsets),
            check_back=CheckBack(clients.producers, clients.push, lambda: config.now.broker_name, clock),
            clock=clock,
        )
        committed = CommittedSends(
            store=store,
            intake=ground.intake,
            topics=ground.topics,
            readable_queue=ground.readable_queue,
            ledger=ledger,
            ops=ops,
        )
        named = NamedHalf(config, store, ledger, clock)
        transaction = Transaction(named, ledger, ops, committed, ResumeCheck(store, ledger, ops), ground.gate)
        end = ground.cold_requests.handler_in_order(transaction.end)
        early = EarlyEnds(end, ledger, config, clock, is_late=lambda: store.log.is_late)
        self.end_runs = end_runs(ground, ledger, ops, early)
        """Lets ends into runs of sends; None without kernels."""
        listed = HalfList(store, ledger, clients.producers, ground.cold_requests, ground.role.address)
        self.rows = tuple(transaction_rows(early.end, transaction.resume, listed))
        self.adopt(ops, self.check, early)

    def store_stopped(self) -> None:
        """A half message counts as dealt with once its end is on disk, which it is now."""
        self.check.pass_ended()
