"""The push consumer: your listener is called with messages, side by side or in order.

Owns        subscriptions, start and graceful stop, answers to brokers and operators.
Must not know   how a listener runs (concurrent.py, ordered.py), how members share queues (rebalance.py), pulling.

A message is delivered at least once: its offset is committed after the listener returned. Clustering: the members of a
group share the queues. Broadcasting: every member reads all queues and keeps its offsets in a file of its own.
"""

from __future__ import annotations

import asyncio
from functools import partial
from pathlib import Path
from typing import Unpack

from rocketlake.base.disk.posix import PosixFiles
from rocketlake.base.errors import UsageError
from rocketlake.base.logs import get_logger
from rocketlake.base.service import stop_each
from rocketlake.client.consumer.concurrent import ConcurrentRunner
from rocketlake.client.consumer.damage import Damage
from rocketlake.client.consumer.filters import subscription_of
from rocketlake.client.consumer.group_consumer import GroupConsumer, PushSettings, spelled_out, with_defaults
from rocketlake.client.consumer.held_queues import HeldQueues
from rocketlake.client.consumer.listener import Listener, ListenerCall
from rocketlake.client.consumer.membership import ConsumeType, Membership
from rocketlake.client.consumer.offset_store import LocalOffsets, OffsetStore, RemoteOffsets
from rocketlake.client.consumer.ordered import OrderedRunner
from rocketlake.client.consumer.pops.mode import PopMode
from rocketlake.client.consumer.puller import Puller
from rocketlake.client.consumer.queue_access import QueueAccess
from rocketlake.client.consumer.rates import SAMPLE_SECONDS
from rocketlake.client.consumer.rebalance import Rebalance
from rocketlake.client.consumer.running import restore_topic
from rocketlake.client.consumer.send_back import SendBack
from rocketlake.client.trace.tracing import traced
from rocketlake.client.user_functions import check_function, is_for_caller
from rocketlake.model import names
from rocketlake.model.message import StoredMessage
from rocketlake.model.message_queue import MessageQueue
from rocketlake.model.subscription import TAG, parse_subscription
from rocketlake.protocol.bodies.client import STANDING_QUEUES, ConsumeDirectlyResult

log = get_logger(__name__)


class PushConsumer(GroupConsumer):
    """Calls `listener(messages)`, a plain or an async function, for each batch. Its answers: ConsumeResult.

    `from_where`, `timestamp_ms` say where a new group starts, `allocate` how members share queues.
    """

    @spelled_out(PushSettings)
    def __init__(self, group: str, *, listener: Listener, **settings: Unpack[PushSettings]) -> None:
        check_function("listener", listener, takes="(messages)")
        told = with_defaults(settings)
        self.orderly, self.broadcasting = told["orderly"], told["broadcasting"]
        # A broadcasting consumer finds its offset file again after a restart.
        super().__init__("push consumer", group, told, has_stable_id=self.broadcasting)
        self.hooks, self._trace = traced(
            self.instance, group, "CONSUME", self.hooks, consume_timeout_ms=self.config.consume_timeout_ms
        )
        self._listener = listener
        self._files = told.get("files") or PosixFiles()
        self._store = self._make_store()
        self._started_ms = self._clock.now_ms()
        self._is_suspended = False
        self._damage: Damage | None = None
        self._pop_mode: PopMode | None = None

    def _make_store(self) -> OffsetStore:
        if not self.broadcasting:
            return RemoteOffsets(self._access.committed, self._access.commit)
        folder = Path(self.config.offsets_dir or Path.home() / ".rocketmq_offsets")
        return LocalOffsets(self._files, folder / self.instance.client_id / self.group / "offsets.json")

    # subscriptions

    def subscribe(self, topic: str, expression: str = "*", expression_type: str = TAG) -> None:
        """Read a topic, filtered by tags (`"TagA || TagB"`, `"*"` for all) or, with type `"SQL92"`, by properties.

        May be called while running.
        """
        names.check_topic(topic)
        self._subscriptions[topic] = subscription_of(topic, expression, expression_type, self.instance.new_version())
        if self.is_running:
            self._rebalance.topics.add(topic)
            self.instance.heartbeat_soon()
            self._rebalance.soon()

    def unsubscribe(self, topic: str) -> None:
        """Stop reading a topic; its queues are left at the next round."""
        self._subscriptions.pop(topic, None)
        if self.is_running:
            self._rebalance.topics.discard(topic)
            self.instance.heartbeat_soon()
            self._rebalance.soon()

    # life

    async def start(self) -> None:
        """Join the group, find the first positions, begin to pull.

        A topic without a route is waited for by later rounds (and logged), not an error.
        """
        if self.is_running:
            return
        self.instance.check_open("PushConsumer", self.group)
        if not self._subscriptions:
            raise UsageError(
                f"consumer of group {self.group!r} has no subscription", hint="call subscribe(topic) first"
            )
        await self._store.load()
        if not self.broadcasting:
            retry = names.retry_topic(self.group)
            self._subscriptions[retry] = parse_subscription(retry, "*", version=self.instance.new_version())
        self._build()
        self.instance.add_consumer(self._membership)
        await super().start()
        if self._trace is not None:
            await self._trace.start()
        self._call.rates.begin(self._clock.monotonic())
        self.every("rates", SAMPLE_SECONDS, lambda: self._call.rates.sample(self._clock.monotonic()))
        self._workers = self._runner.start(self, self._held.all)
        if self._pop_mode is not None:
            self.keep("renewals", self._pop_mode.renewals.run)
        if isinstance(self._runner, OrderedRunner):
            self.instance.masters.on_move.append(self._runner.master_moved)
        try:
            if self._own_instance:
                await self.instance.start()
            await self._join()
            await self._begin_rounds(self._rebalance)
        except BaseException:
            await self.stop()
            raise

    def _build(self) -> None:
        """Put the parts together: listener call, runner, held queues, rebalance, membership."""
        locks = self._access if self.orderly and not self.broadcasting else None
        self._call = ListenerCall(self._listener, threads=self.config.concurrency)
        send_back = None
        if not self.broadcasting:
            limit = self.config.reconsume_limit(orderly=self.orderly)
            send_back = SendBack(self.instance, self.group, reconsume_limit=limit, clock=self._clock)
        self._damage = Damage(self.group, self.hooks, send_back.to_dead_letters if send_back else None)
        self._runner = self._make_runner(locks, send_back)
        self._held = HeldQueues(
            self.instance,
            self._store,
            self._start_policy,
            self._runner,
            Puller(self.instance, self.group, self.config),
            group=self.group,
            config=self.config,
            locks=locks,
            is_locked=self._runner.is_locked if isinstance(self._runner, OrderedRunner) else None,
            listener_runs=self._runner.listener_runs if isinstance(self._runner, OrderedRunner) else lambda _: False,
            damaged=self._damage.settle,
            pulled=self._call.rates.pulled,
            subscription=self._subscriptions.get,
            commits=not self.broadcasting,
            is_suspended=lambda: self._is_suspended,
            spawn=self.spawn,
        )
        self._pop_mode = self._make_pop_mode(self._runner, self._damage, send_back)
        self._rebalance = Rebalance(
            self.instance,
            self._held,
            group=self.group,
            config=self.config,
            allocate=self._allocate,
            broadcasting=self.broadcasting,
            clock=self._clock,
            by_broker=self._pop_mode,
        )
        self._rebalance.topics.update(self._subscriptions)
        if self._pop_mode is not None:
            self._pop_mode.topics = self._rebalance.topics
        self._membership = Membership(
            self.group,
            kind=ConsumeType.PASSIVELY,
            broadcasting=self.broadcasting,
            orderly=self.orderly,
            from_where=self.from_where,
            subscriptions=self._subscriptions,
            offsets=self._store,
            queues=self._held.queues,
            held=self._held.all,
            rebalance_soon=self._rebalance.soon,
            persist=self._persist,
            reset=self._held.reset,
            consume_directly=self._consume_directly,
            properties=self._properties,
            status=lambda: self._call.rates.status(self._subscriptions, self._clock.monotonic()),
        )

    def _make_runner(self, locks: QueueAccess | None, send_back: SendBack | None) -> ConcurrentRunner | OrderedRunner:
        if self.orderly:
            return OrderedRunner(
                self._call,
                group=self.group,
                config=self.config,
                offsets=self._store,
                resend=send_back.resend if send_back else None,
                lock=locks.lock if locks else None,
                hooks=self.hooks,
                clock=self._clock,
            )
        return ConcurrentRunner(
            self._call,
            group=self.group,
            config=self.config,
            offsets=self._store,
            send_back=send_back,
            hooks=self.hooks,
            clock=self._clock,
        )

    def _make_pop_mode(
        self, runner: ConcurrentRunner | OrderedRunner, damage: Damage, send_back: SendBack | None
    ) -> PopMode | None:
        """None where members share the queues among themselves. As in RocketMQ: always in order, and broadcasting."""
        if self.config.client_rebalance or send_back is None or not isinstance(runner, ConcurrentRunner):
            return None
        return PopMode(
            self,
            self.instance,
            runner,
            self._call,
            group=self.group,
            config=self.config,
            from_where=self.from_where,
            allocate=self._allocate,
            subscriptions=self._subscriptions,
            damage=damage,
            to_dead_letters=send_back.to_dead_letters,
            hooks=self.hooks,
            is_suspended=lambda: self._is_suspended,
        )

    async def stop(self) -> None:
        """Stop pulling, let running listeners finish (up to `drain_ms`), commit, give locks up, leave the group.

        A cancelled stop still leaves the group; it only waits no longer for listeners.
        """
        if not self.is_running:
            return
        self.is_running = False
        await stop_each(
            self._end_rounds,
            self._held.stop_pulling,
            *([self._pop_mode.queues.stop_popping] if self._pop_mode else []),
            self._drain,
            *([self._pop_mode.acks.drain] if self._pop_mode else []),
            self._held.leave_all,
            partial(self.instance.remove_consumer, self._membership),
            super().stop,
            *([self._trace.stop] if self._trace else []),
            self._call.close,
            *([self.instance.stop] if self._own_instance else []),
        )

    async def _drain(self) -> None:
        self._runner.stop()
        if isinstance(self._runner, OrderedRunner):
            self.instance.masters.on_move.remove(self._runner.master_moved)
        # Do not wait for a listener that stops its own consumer: it cannot end before this returns.
        if running := [task for task in self._workers if task is not asyncio.current_task()]:
            try:
                await asyncio.wait(running, timeout=self.config.drain_ms / 1000)
            finally:
                if self._call.ends_when_cancelled:
                    for task in running:
                        task.cancel()
                    await asyncio.gather(*running, return_exceptions=True)

    def suspend(self) -> None:
        """Stop pulling for a while; messages in hand are still consumed."""
        self._is_suspended = True

    def resume(self) -> None:
        """Go on after `suspend`."""
        self._is_suspended = False

    @property
    def assignment(self) -> list[MessageQueue]:
        """The queues this member reads now; queue id -1 stands for any queue that it pops."""
        popped = self._pop_mode.queues.queues() if self._pop_mode else ()
        return sorted([*self._held.queues(), *popped]) if self.is_running else []

    @property
    def damaged(self) -> int:
        """Messages that could not be read since the start; each is in the log and, in clustering, a dead letter."""
        return self._damage.count if self._damage else 0

    async def _persist(self) -> None:
        await self._store.persist(self._held.queues())

    async def _consume_directly(self, message: StoredMessage) -> ConsumeDirectlyResult:
        """For an operator: run the listener on this message, whatever its offset; nothing is committed."""
        restore_topic(message, self.group)
        begun = self._clock.monotonic()
        result = ConsumeDirectlyResult(order=self.orderly, auto_commit=True)
        try:
            answer = await self._call([message])
        except BaseException as error:
            if is_for_caller(error):
                raise
            result.consume_result = "CR_THROW_EXCEPTION"
            result.remark = f"{type(error).__name__}: {error}"
        else:
            result.consume_result = "CR_SUCCESS" if answer.count_done(1) else "CR_LATER"
        result.spent_time_mills = int((self._clock.monotonic() - begun) * 1000)
        return result

    def _properties(self) -> dict[str, str]:
        standing = self._runner.standing() if isinstance(self._runner, OrderedRunner) else ""
        return ({STANDING_QUEUES: standing} if standing else {}) | {
            "PROP_NAMESERVER_ADDR": ";".join(self.instance.name_servers.addresses) + ";",
            "PROP_THREADPOOL_CORE_SIZE": str(self.config.concurrency),
            "PROP_CONSUMER_START_TIMESTAMP": str(self._started_ms),
            "consumerGroup": self.group,
        }
