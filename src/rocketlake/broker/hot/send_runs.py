"""Runs of plain sends, the sends that producers send nearly always, and of ends of transactions: served by the chunk.

Owns        when a run may be taken, the settings of the kernel, the time at which each sender is answered.
Must not know   bytes of frames and records (plain_send.pyx, record_run.pyx), how a run is stored.

A run is the plain sends at the start of one received chunk, and the plain ends between them: a producer of transactions
sends both by turns. What is not plain goes to processors/; so does the whole chunk while the broker refuses sends. No
rule exists only here: the checks are those of rights/send.py, the broker's properties and the answers those of sends/,
the ends those of transaction/. Walk through it: docs/internals/hot_path.md.
"""

from __future__ import annotations

from collections.abc import Callable

from rocketlake.base.clock import Clock
from rocketlake.base.logs import get_logger
from rocketlake.broker.config import BrokerConfig, LiveConfig
from rocketlake.broker.delay import plain_time
from rocketlake.broker.delay.parking import TimerRules
from rocketlake.broker.hot import plain_run, plain_send, plain_topics
from rocketlake.broker.hot.end_runs import EndRuns
from rocketlake.broker.intake.sequenced_puts import NextBatch, SequencedPuts
from rocketlake.broker.quotas.quotas import Quotas
from rocketlake.broker.sends.single import SingleSends
from rocketlake.codec import property_text
from rocketlake.codec.host import encode_host
from rocketlake.model.positions import PhysicalOffset, QueueOffset
from rocketlake.model.topic import Perm, TopicFilterType
from rocketlake.net.request import FrameAsker, Reply, Request
from rocketlake.protocol.command import Codec, Command
from rocketlake.protocol.frame import PREFIX_BYTES, encode_command
from rocketlake.protocol.limits import WireLimits
from rocketlake.protocol.request_code import RequestCode
from rocketlake.store.results import PutResult, PutStatus

__all__ = ["SendRuns"]

_log = get_logger(__name__)

_BORN_HOST = "born host"
# Values that occur nowhere else in an answer of the ordinary path: they show where the values stand.
_QUEUE_ID, _QUEUE_OFFSET, _OPAQUE, _KEY, _HANDLE = 1999999991, 1999999992, 1999999993, "UNIQUE-KEY", "RECALL-HANDLE"

_BROKER_NAME_BYTES_MAX = 255


class SendRuns:
    """Serves runs of plain sends for the dispatcher (Dispatcher.serve_runs)."""

    def __init__(
        self,
        config: LiveConfig,
        single: SingleSends,
        sequenced: SequencedPuts,
        ends: EndRuns,
        wire: WireLimits,
        timer_rules: TimerRules,
        *,
        quotas: Quotas,
        clock: Clock,
        body_bytes_max: Callable[[], int],
        log_end: Callable[[], int],
    ) -> None:
        self._config = config
        self._rights = single.rights
        self._incoming = single.incoming
        self._answers = single.answers
        self._intake = single.intake
        self._sequenced = sequenced
        self._ends = ends
        self._topics = plain_topics.PlainTopics(self._find_topic)
        self._plain_ends = ends.kernel(self._topics)
        self._wire = wire
        self._timer_rules = timer_rules
        self._quotas = quotas
        self._clock = clock
        self._body_bytes_max = body_bytes_max
        self._log_end = log_end
        self._made_for: BrokerConfig | None = None
        self._takes_sends = False
        self._cutter: plain_send.PlainSendCutter

    def forget_topics(self) -> None:
        """A topic was made, changed or deleted."""
        self._topics.forget()

    def serve(self, link: FrameAsker, ready: bytes, position: int, _turn_end: float) -> int:
        """Serve the plain sends of `ready` from `position` on; returns where they end.

        Flow control: no age check, because a run is served the moment it is received. The number of sends that may wait
        for the disk is checked here. Quotas: a run passes them as one send does, and pays for all that it holds.
        """
        config = self._config.now
        if config is not self._made_for:
            self._make_cutter(config)
        if self._intake.line or not self._takes_sends or (config.start_accept_send_ms and self._rights.is_early):
            return position
        host = link.state.get(_BORN_HOST)
        sends = self._cutter.cut(ready, position, host or _born_host(link), link)
        if sends is None:
            return position
        quotas = self._quotas
        if quotas.is_any and quotas.pause_in(link.user, [counts[0] for counts in sends.topic_counts()]):
            return position
        acks_at_once = self._intake.acks_at_once
        if not (acks_at_once or self._may_wait(link, sends, config)):
            return position
        marked: list[NextBatch] | None = []
        if sends.marked:
            marked = self._sequenced.next_ones(sends.marked)
        if marked is None:
            return position
        try:
            if sends.count and not self._intake.put_run(sends.run, sends.topic_counts()):
                return position
            if quotas.is_any:
                quotas.spend_in(link.user, sends.topic_counts())
            if marked:
                self._sequenced.note(marked)
            if sends.ended:
                self._ends.note(sends.ended)
            if acks_at_once:
                link.write_answers([sends.answers()])
            elif sends.count:
                self._answer_when_durable(link, sends)
        except Exception as problem:
            if not 0 <= sends.run.physical_offset < self._log_end():
                raise
            # Our bug. The messages are stored: served in the ordinary way they would be stored a second time. The
            # senders learn by the end of their link that no answer comes.
            self._sequenced.note(marked)
            self._ends.note(sends.ended)
            _log.exception("%d sends of %s are stored, but are not answered", sends.count, link.address)
            link.abort("run", f"its sends are stored, but cannot be answered: {problem!r}")
        return sends.end

    def _answer_when_durable(self, link: FrameAsker, sends: plain_run.PlainSends) -> None:
        link.held += sends.asked
        self._intake.when_run_durable(
            sends.run, sends.count, lambda status, why: self._answer(link, sends, status, why)
        )

    def _may_wait(self, link: FrameAsker, sends: plain_run.PlainSends, config: BrokerConfig) -> bool:
        """True if all senders wait for the disk, and the limits allow so many more to wait."""
        waiting = self._intake.waiting + sends.count
        return sends.waits and waiting <= config.waiting_sends_max and sends.asked <= link.room_to_hold

    def _answer(self, link: FrameAsker, sends: plain_run.PlainSends, status: PutStatus, reason: str) -> None:
        link.held -= sends.asked
        if status is PutStatus.OK:
            link.write_answers([sends.answers()])
            return
        for opaque, is_binary, queue_id, unique_key, handle, queue_offset, offsets in sends.outcomes():
            result = PutResult(
                status,
                offsets[0],
                queue_offset=queue_offset,
                reason=reason,
                count=len(offsets),
                offsets=offsets if len(offsets) > 1 else (),
            )
            command = Command(
                RequestCode.SEND_MESSAGE_V2, opaque=opaque, codec=Codec.ROCKETMQ if is_binary else Codec.JSON
            )
            reply = self._answers.answer(status, result, queue_id, unique_key, recall_handle=handle)
            Request(command, link, 0).answer(reply)

    # -- settings and parts of answers for the kernel ------------------------------------------------------------------

    def _make_cutter(self, config: BrokerConfig) -> None:
        added: dict[str, str] = {}
        self._incoming.add_properties(added)
        self._cutter = plain_send.PlainSendCutter(
            self._topics,
            self._plain_ends,
            self._plain_times(config),
            self._answer_parts(),
            self._incoming.store_host,
            property_text.encode(added),
            not config.reject_transactions,
            (self._body_bytes_max(), self._wire.frame_bytes, self._wire.header_bytes),
        )
        self._takes_sends = Perm.is_writeable(config.permission)
        self._made_for = config

    def _plain_times(self, config: BrokerConfig) -> plain_time.PlainTimes | None:
        rules, name = self._timer_rules, config.broker_name.encode()
        if not rules.is_enabled or len(name) > _BROKER_NAME_BYTES_MAX:
            return None
        return plain_time.PlainTimes(self._clock.now_ms, rules.precision_ms, rules.delay_ms_max, name)

    def _find_topic(self, name: str) -> plain_topics.PlainTopic | None:
        topic = self._rights.plain_topic(name)
        if topic is None:
            return None
        is_multi_tag = topic.filter_type is TopicFilterType.MULTI_TAG
        return plain_topics.PlainTopic(name, topic.queues, topic.read_queues, is_multi_tag)

    def _answer_parts(self) -> plain_run.AnswerParts:
        """An answer of the ordinary path, cut at the values that differ from answer to answer."""
        result = PutResult(PutStatus.OK, PhysicalOffset(0), queue_offset=QueueOffset(_QUEUE_OFFSET))
        reply = self._answers.answer(PutStatus.OK, result, _QUEUE_ID, _KEY)
        message_id: str = reply.header.msg_id  # type: ignore[union-attr]
        json = _header(reply, Codec.JSON)
        parts: list[bytes] = []
        for value in (message_id, _QUEUE_ID, _QUEUE_OFFSET, _KEY, _OPAQUE):
            part, _, json = json.partition(str(value).encode())
            parts.append(part)
        binary = _header(reply, Codec.ROCKETMQ)
        recallable = self._answers.answer(PutStatus.OK, result, _QUEUE_ID, _KEY, recall_handle=_HANDLE)
        _, _, behind_key = _header(recallable, Codec.JSON).partition(_KEY.encode())
        return plain_run.AnswerParts(
            (*parts, json),
            behind_key.partition(_HANDLE.encode())[0],
            (binary[:5], binary[9:17], binary.partition(_KEY.encode())[2]),
            message_id[:-16].encode(),
        )


def _header(reply: Reply, codec: Codec) -> bytes:
    request = Command(RequestCode.SEND_MESSAGE_V2, opaque=_OPAQUE, codec=codec)
    return bytes(encode_command(reply.to_command(request))[0][PREFIX_BYTES:])


def _born_host(link: FrameAsker) -> bytes:
    host = link.state[_BORN_HOST] = encode_host(*link.remote)
    return host
