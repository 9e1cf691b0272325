"""EtcdRegister: a register whose values stand in etcd.

Owns        the transaction of a swap, finding out what became of a swap without an answer.
Must not know   groups and brokers, HTTP.

Safety: a swap is one transaction that compares the key's revision. It goes through Raft, so its answer is no stale
read, and a second copy of it can never be made after the first. A swap that may have been made is told by its value:
callers put a word into each value that no other value has.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from rocketlake.base.clock import Clock
from rocketlake.base.service import Service, stop_each
from rocketlake.controller.etcd.cluster import EtcdCluster, EtcdError
from rocketlake.controller.etcd.settings import EtcdSettings
from rocketlake.controller.etcd.watch import EtcdWatch
from rocketlake.controller.etcd.wire import KeyValue, RangeAnswer, SwapAnswer, key_body, prefix_body, swap_body
from rocketlake.controller.registers.register import ABSENT, Changed, Conflict, OutcomeUnknown, Swap, Swapped, Versioned
from rocketlake.net.network import Network

__all__ = ["EtcdRegister"]

_STEPS_MAX = 8


class EtcdRegister(Service):
    """Implements controller.registers.register.Register."""

    def __init__(self, settings: EtcdSettings, network: Network, clock: Clock | None = None) -> None:
        """Raises UsageError: an address, a certificate or a password that cannot be used."""
        super().__init__("etcd-register", clock)
        self._cluster = EtcdCluster(settings, network, self._clock)
        self._root = self._cluster.root
        self._watch = EtcdWatch(self._cluster, self._clock)
        self.adopt(self._cluster, self._watch)

    async def start(self) -> None:
        """Starts to watch. Etcd need not be up yet."""
        await super().start()
        await self._cluster.start()
        await self._watch.start()

    async def stop(self) -> None:
        """Ends what is under way: its callers get LinkError."""
        await stop_each(self._watch.stop, self._cluster.stop, super().stop)

    async def read(self, prefix: str) -> dict[str, Versioned]:
        """See Register.read: by way of etcd's leader."""
        read = await self._cluster.ask("/v3/kv/range", prefix_body(self._name(prefix)), RangeAnswer)
        start = len(self._root)
        return {kv.key.decode(errors="replace")[start:]: (kv.value, kv.mod_revision) for kv in read.answer.kvs}

    async def swap(self, key: str, revision: int, value: bytes, also: Mapping[str, bytes | None] | None = None) -> Swap:
        """See Register.swap."""
        name = self._name(key)
        beside = {self._name(other): content for other, content in (also or {}).items() if other != key}
        try:
            asked = await self._cluster.ask("/v3/kv/txn", swap_body(name, revision, value, beside), SwapAnswer)
        except EtcdError as error:
            if error.in_doubt:
                raise OutcomeUnknown(f"etcd may have made the swap of {key}: {error.what}", hint=error.hint) from None
            raise
        if asked.answer.succeeded:
            return Swapped(asked.answer.header.revision)
        if not asked.in_doubt:
            return _conflict(asked.answer.found)
        return await self._what_became(name, revision, value, asked.answer.found)

    def watch(self, prefix: str, changed: Changed) -> Callable[[], object]:
        """See Register.watch. A change is told within `poll_seconds` also when the watch is broken."""
        return self._watch.add(prefix, changed)

    async def _what_became(self, name: bytes, revision: int, value: bytes, found: KeyValue) -> Swap:
        """A try without an answer, then a conflict: was the conflict with that try?

        Walk back from the key as it is to the first change after `revision`: that change was ours or it was not, and
        ours can come no more.
        """
        at = found
        for _ in range(_STEPS_MAX):
            if at.value == value and at.mod_revision > revision:
                return Swapped(at.mod_revision)
            if revision != ABSENT and at.mod_revision == revision:
                return _conflict(found)
            if at.mod_revision <= revision:
                break  # the key was removed meanwhile, or had never been there: ours may come yet
            try:
                read = await self._cluster.ask("/v3/kv/range", key_body(name, at.mod_revision - 1), RangeAnswer)
            except EtcdError:
                break  # compacted, or out of reach
            at = read.answer.kvs[0] if read.answer.kvs else KeyValue()
        raise OutcomeUnknown(f"etcd may have made the swap of {name.decode()}, which was changed again")

    def _name(self, key: str) -> bytes:
        return (self._root + key).encode()


def _conflict(found: KeyValue) -> Conflict:
    return Conflict(found.value if found.mod_revision else None, found.mod_revision)
