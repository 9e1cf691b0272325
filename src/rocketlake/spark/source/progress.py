"""The progress of a stream on the driver: its first offsets, the end of the next micro-batch, the batches done.

Owns        the first offsets, the end of each micro-batch, availableNow, the offsets published for lag tools.
Must not know   Spark's classes, how rows are read.

Spark keeps the offsets of each micro-batch in its checkpoint and reads [start, end) again after a failure. So each
decision here is made once and then stands in those offsets, or in start_store.py for the very first ones.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Set
from dataclasses import dataclass, replace

from rocketlake.base.errors import LinkError, RocketLakeError
from rocketlake.base.logs import get_logger
from rocketlake.model.message_queue import MessageQueue
from rocketlake.spark.source.brokers import Bounds, Brokers, bounds_of, keep_offsets
from rocketlake.spark.source.incarnations import Incarnations
from rocketlake.spark.source.limits import MinimumWait, share_bytes, share_limit
from rocketlake.spark.source.losses import lose
from rocketlake.spark.source.offsets import Offsets, describe
from rocketlake.spark.source.options import SourceOptions
from rocketlake.spark.source.plan import QueueRange, ranges_between
from rocketlake.spark.source.positions import Kind
from rocketlake.spark.source.queue_finder import QueueFinder
from rocketlake.spark.source.record_size import RecordSizes
from rocketlake.spark.source.seek import offsets_of_times, resolve
from rocketlake.spark.source.start_store import StartStore, start_store
from rocketlake.spark.source.watch import Watch

__all__ = ["Limit", "Progress"]

log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Limit:
    """The bounds of the next micro-batch; None: no bound."""

    rows: int | None = None
    size: int | None = None
    waits: bool = False
    """True if minOffsetsPerTrigger holds for this micro-batch."""


class Progress:
    """One running stream."""

    def __init__(self, options: SourceOptions, brokers: Brokers) -> None:
        self._options = options
        self._brokers = brokers
        self._finder = QueueFinder(brokers, options)
        self._watch = Watch(brokers, options, self._finder)
        self._starts: StartStore = start_store(options, brokers)
        self._wait = MinimumWait(options.min_offsets_per_trigger, options.max_trigger_delay_ms)
        self.sizes = RecordSizes(brokers, options)
        self.incarnations = Incarnations(brokers, options)
        self._first: Offsets | None = None
        self._commits = 0
        self._is_forgotten = False
        self._target: Mapping[MessageQueue, Bounds] | None = None
        self._published: Offsets = {}
        self._joined: set[MessageQueue] = set()

    @property
    def newest(self) -> Offsets:
        """The newest offsets known."""
        return self._watch.newest

    # -- the first offsets

    def first_offsets(self) -> Offsets:
        """The first offsets: chosen once, and kept in the start store before Spark gets them."""
        if self._first is None:
            queues = self._finder.require_all()
            kept = self._starts.load(queues)
            self._first = self._with_new_queues(kept) if kept else self._choose_first()
            if self._first != kept:
                self._starts.save(self._first)
        return self._first

    def _choose_first(self) -> Offsets:
        # availableNow fixed its end before this: a start behind that end would look like lost messages.
        bounds = self._target if self._target is not None else self._watch.ask()
        return self._brokers.run(resolve(self._brokers, self._options, self._options.starting, bounds))

    def _with_new_queues(self, kept: Offsets) -> Offsets:
        log.warning(
            "the stream starts at the offsets it chose when it was first started, kept in %s; "
            "option '%s' is not looked at again",
            self._starts.name,
            self._options.starting.option,
        )
        return kept | self._first_available(self._finder.queues - kept.keys())

    def _checkpoint_knows(self, offsets: Offsets) -> None:
        """Spark goes on from a checkpoint without asking for first offsets: the start store may forget them."""
        if self._first is None:
            self._forget_first(offsets)

    def _forget_first(self, queues: Collection[MessageQueue]) -> None:
        if self._is_forgotten:
            return
        self._is_forgotten = True
        try:
            self._starts.forget(queues)
        except (RocketLakeError, OSError) as error:
            # Harmless, and repeated at the next start: from here on Spark's checkpoint decides.
            log.warning("first offsets stay in %s: %s", self._starts.name, error)

    # -- the end of a micro-batch

    def next_end(self, start: Offsets, limit: Limit) -> Offsets:
        """The end of the next micro-batch; new queues join with their first offset and no rows."""
        self._checkpoint_knows(start)
        self._publish(start)
        bounds = self._target if self._target is not None else self._watch.look(start)
        known = {queue: each for queue, each in bounds.items() if queue in start}
        shorter = [queue for queue, each in known.items() if each.high < start[queue] or queue in self._watch.shrunk]
        longer = {queue for queue, each in known.items() if each.high > start[queue]}
        self.incarnations.check(known, [*shorter, *self.incarnations.replaced(longer, known)])
        ends = {queue: self._end_of(queue, offset, bounds.get(queue)) for queue, offset in start.items()}
        again = {queue for queue, offset in start.items() if ends[queue] < offset}
        new = bounds.keys() - start.keys()
        may_wait = limit.waits and self._target is None and not again and not new
        if may_wait and self._wait.holds_back(start, ends, self._brokers.monotonic()):
            self._watch.wait()
            return dict(start)
        if limit.rows is not None:
            ends = share_limit(start, ends, limit.rows)
        if limit.size is not None:
            ends = share_bytes(start, ends, limit.size, self.sizes.measure)
        self.incarnations.note(start, ends, bounds)
        return ends | self._join(new) if new else ends

    def _end_of(self, queue: MessageQueue, start: int, bounds: Bounds | None) -> int:
        """The end of the queue now; before `start` if the queue begins anew."""
        if bounds is None:
            return start
        ended_at = self._watch.shrunk.pop(queue, start)
        if queue in self.incarnations.changed or bounds.high < max(start, ended_at):
            self._note_cut(queue, start, ended_at, bounds)
        if queue in self.incarnations.cut:
            return self.incarnations.go_on(queue)
        if bounds.high < start and queue in self.incarnations.same:
            return bounds.high  # the last message read was damaged, so there is no mark for it
        if queue in self.incarnations.remade or bounds.high < start:
            self.incarnations.begin_anew(queue)
            return bounds.low
        return max(start, min(bounds.high, self._watch.caps.get(queue, bounds.high)))

    def _note_cut(self, queue: MessageQueue, start: int, ended_at: int, bounds: Bounds) -> None:
        """Note the loss behind `start`. Its size is known only if the queue's end was seen before."""
        lost_from, go_on_at = start, None
        if queue in self.incarnations.remade:
            why = "the topic was made anew: the messages that were read are not those that lie there now"
        elif queue in self.incarnations.cut:
            go_on_at = self.incarnations.cut[queue]
            why = f"its broker lost the end of its log, and holds other messages from offset {go_on_at} on"
        else:
            why = "the topic was made anew, or its broker lost the end of its log"
            lost_from = max(start, bounds.high)
        wanted = QueueRange(queue, start, max(ended_at, lost_from + 1))
        lost_to = ended_at if ended_at > lost_from else None
        lose(self._options, wanted, lost_from, lost_to, bounds, why, go_on_at=go_on_at)

    def _join(self, new: Set[MessageQueue]) -> Offsets:
        """First offsets of queues found now. One whose broker was away since the start may have one kept."""
        self._joined |= new
        kept = self._starts.load(new)
        return self._first_available(new) | {queue: kept[queue] for queue in new & kept.keys()}

    def _first_available(self, queues: Set[MessageQueue]) -> Offsets:
        """The first offsets of new queues: by the stream's starting time, or their first message."""
        bounds = self._brokers.run(bounds_of(self._brokers, self._options, queues))
        starting = self._options.starting
        placed = {queue: starting.of_all or starting.by_topic.get(queue.topic) for queue in bounds}
        times = {queue: place.number for queue, place in placed.items() if place and place.kind is Kind.TIME}
        found = self._brokers.run(offsets_of_times(self._brokers, self._options, times, bounds))
        return {queue: each.low for queue, each in bounds.items()} | found

    def stop_at_present(self) -> None:
        """Fix the target of an availableNow run."""
        self._finder.find()
        self._target = self._watch.ask()

    # -- planning and after

    def plan(self, start: Offsets, end: Offsets) -> list[QueueRange]:
        """Ranges of a micro-batch, which may be an old one planned again."""
        self._checkpoint_knows(start)
        self._check_first_batch(start, end)
        # An end before the start is planned only with failOnDataLoss = false (see _end_of): the queue begins anew
        # there, and the next micro-batch reads from it.
        ranges = [each for each in ranges_between(start, end) if each.size > 0]
        unchecked = self.incarnations.unchecked([each.queue for each in ranges])
        if unchecked:
            bounds = self._brokers.run(bounds_of(self._brokers, self._options, unchecked))
            self.incarnations.check(bounds)
            if self._options.fail_on_data_loss:
                for each in ranges:
                    if each.queue in self.incarnations.changed:
                        self._note_cut(each.queue, each.start, each.end, bounds[each.queue])
        # Of a queue that changed only messages still there are read; the next micro-batch goes on with newer ones.
        cut = self.incarnations.cut
        left = [replace(each, end=min(each.end, cut.get(each.queue, each.end))) for each in ranges]
        return [each for each in left if each.size > 0 and each.queue not in self.incarnations.remade]

    def _check_first_batch(self, start: Offsets, end: Offsets) -> None:
        """Refuse batch 0, planned again while a broker is away: its start in that broker's queues is not known."""
        lost = sorted(end.keys() - start.keys() - self._joined)
        if self._first is not None and lost:
            raise LinkError(
                f"the first batch must be done again, and its start is not known for {describe(lost[0])}: "
                "the broker is not in the route",
                where=f"name server {self._options.namesrv}",
                hint="start the query again when the broker is back",
            )

    def committed(self, end: Offsets) -> None:
        """After the second batch Spark's checkpoint cannot need the first offsets any more, in any of its modes."""
        self._checkpoint_knows(end)
        self._commits += 1
        if self._commits >= 2:
            self._forget_first(end)

    def _publish(self, start: Offsets) -> None:
        """Commit the query's offsets at the brokers, for lag tools. The query itself goes on by Spark's checkpoint."""
        group = self._options.consumer_group
        moved = {queue: offset for queue, offset in start.items() if self._published.get(queue) != offset}
        if not group or not moved:
            return
        try:
            # Not worth a wait: the next micro-batch publishes newer offsets.
            hasty = replace(self._options, broker_wait_ms=0)
            self._brokers.run(keep_offsets(self._brokers, hasty, group, moved))
        except RocketLakeError as error:
            log.warning("progress of group %s was not published: %s", group, error)
        self._published |= moved
