"""The wing of sends: messages of producers, messages that consumers hand back, answers to messages that ask.

Owns        how the parts of this wing are put together; the answers to sends while it stops and on a slave.
Must not know   the work of the parts.
"""

from __future__ import annotations

import os

from rocketlake.broker.dispatch_table import sending_rows
from rocketlake.broker.intake.audit_topic import AuditTopic
from rocketlake.broker.intake.large_batches import LargeBatches
from rocketlake.broker.intake.sequenced_puts import SequencedPuts
from rocketlake.broker.processors.reply import SendReply
from rocketlake.broker.processors.send import Send
from rocketlake.broker.processors.send_back import SendBack
from rocketlake.broker.producer_sequences.catch_up import catch_up, catch_up_in_turns
from rocketlake.broker.producer_sequences.table import LogEnds, ProducerSequences
from rocketlake.broker.rights.send import SendRights
from rocketlake.broker.sends.answer import SendAnswers
from rocketlake.broker.sends.batch import BatchSends
from rocketlake.broker.sends.incoming import Incoming
from rocketlake.broker.sends.single import SingleSends
from rocketlake.broker.wings.clients import Clients
from rocketlake.broker.wings.ground import Ground
from rocketlake.broker.wings.lite import Lite
from rocketlake.broker.wings.plain_runs import send_run
from rocketlake.broker.wings.transactions import Transactions
from rocketlake.broker.wings.wing import MasterWing
from rocketlake.model.message_id import UniqueKeyMaker
from rocketlake.net.request import Reply, Request
from rocketlake.protocol.response_code import ResponseCode

__all__ = ["Sending"]


class Sending(MasterWing):
    """Takes messages."""

    def __init__(self, ground: Ground, clients: Clients, transactions: Transactions, lite: Lite) -> None:
        super().__init__("sending", ground.clock, ground.role)
        config, store, clock = ground.config, ground.store, ground.clock
        self._store = store
        self._saver = ground.saver
        store.after_cut.append(self._log_was_cut)
        self.sequences = ProducerSequences(
            ground.table_path("producerSequences.json"),
            ground.seams.files,
            clock,
            lambda: LogEnds(store.max_physical_offset, store.flushed_offset),
            producers_max=config.now.producer_sequences_max,
            keep_ms=config.now.producer_sequence_keep_ms,
        )
        sequenced = SequencedPuts(ground.intake, self.sequences, ground.saver, lambda: store.max_physical_offset)
        rights = SendRights(config, ground.topics, ground.groups, clients.queue_locks, clock)
        incoming = Incoming(config, ground.topics, ground.role.address)
        answers = SendAnswers(config, ground.intake, ground.role.address)
        unique_keys = UniqueKeyMaker(ground.role.host, os.getpid(), clock.now_ms)
        large = LargeBatches(config, ground.turns, clock)
        single = SingleSends(rights, incoming, ground.intake, answers, unique_keys, lite.queues)
        batch = BatchSends(incoming, ground.intake, sequenced, large, answers)
        send = Send(rights, ground.topics, ground.auto_create, single, batch)
        send_back = SendBack(
            store=store,
            intake=ground.intake,
            auto_create=ground.auto_create,
            rights=rights,
            stats=ground.stats,
            timer_rules=ground.timer_rules,
            store_address=ground.role.address,
            gate=ground.gate,
        )
        reply = SendReply(
            config,
            rights,
            clients.producers,
            clients.push,
            lambda request: send.send(request) if self.is_running else self.refuse(request),
            store_address=ground.role.address,
            clock=clock,
        )
        self.tables = (self.sequences,)
        self.rows = tuple(sending_rows(send, send_back, reply))
        self.run = send_run(ground, single, sequenced, transactions.end_runs)
        self.audit: AuditTopic | None = None
        """Stores what the audit notes, where that is asked for."""
        if config.now.audit_topic_enabled:
            self.audit = AuditTopic(store, ground.role, clock, ground.role.address)
            self.adopt(self.audit)
        self._large = large
        self._held = (ground.auto_create.held, sequenced.held)

    async def start(self) -> None:
        """Bring the table of producer sequences up to the end of the log, before the first send."""
        await super().start()
        await catch_up_in_turns(self.sequences, self._store, self._clock)

    async def stop(self) -> None:
        """Answer the sends that are held before they are stored. Those that wait for the disk are answered by it."""
        for held in self._held:
            held.settle_all(self.refuse)
        self._large.end(self.refuse)
        self.sequences.close()
        await super().stop()

    def follow(self) -> None:
        """Have the file of producer sequences say from which place of the log on this broker counts no marks."""
        self.sequences.follow()
        if not self.sequences.has_file:
            self._saver.when_saved(self.sequences.note_saved)

    def refuse(self, _request: Request) -> Reply:
        """As a slave of RocketMQ: producers try another broker."""
        remark = f"[REJECTREQUEST]system busy, start flow control for a while: {self.role.refusal}"
        return Reply(ResponseCode.SYSTEM_BUSY, remark=remark)

    def _log_was_cut(self, end: int) -> None:
        """Marks behind the end were never stored. A saved table that counts them must go."""
        self.sequences.log_was_cut(end)
        if self.is_running:
            catch_up(self.sequences, self._store, self._clock)
        self._saver.when_saved(lambda _saved: None)
