"""The way back: an Apache slave of a master of ours becomes the master.

Owns        what is brought to Apache's broker that it does not copy in time, the wait for its start as the master.
Must not know   how the old master steps down (handover.py), output.

Apache's slave copies tables once a minute, and becomes a master only by a start: told to be one while it runs, it would
give messages the offsets that its queues had at its last start. So the old master steps down right behind such a copy,
offsets of groups that have moved since are sent to the slave, and then it is started with two new lines in its
broker.conf. From there on nothing is given back: a start that is under way would make it a second master.
"""

from __future__ import annotations

import asyncio
import shlex
import shutil
import subprocess
from collections.abc import Callable

from rocketlake.admin.migration.left_behind import LeftBehind
from rocketlake.admin.migration.peer import Peer, number
from rocketlake.admin.words import counted
from rocketlake.base.clock import Clock
from rocketlake.base.errors import LinkError, RocketLakeError, UsageError
from rocketlake.model.names import is_dead_letter_topic, is_retry_topic, is_system_group, is_system_topic
from rocketlake.protocol.headers.offset import UpdateOffsetHeader
from rocketlake.protocol.request_code import RequestCode
from rocketlake.protocol.response_code import ResponseCode

__all__ = ["ToApache"]

_COPY_SECONDS = 75.0
"""Apache's slave copies its master's tables once in 60 s."""
_START_SECONDS = 900.0
_COPYING_SECONDS = 0.2
"""It copies one table after the other."""
_QUICK_SECONDS, _LOOK_SECONDS = 0.05, 0.25
_NAMED = (
    (RequestCode.GET_ALL_TOPIC_CONFIG, "topicConfigTable", "topics", ("readQueueNums", "writeQueueNums", "perm")),
    (
        RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG,
        "subscriptionGroupTable",
        "groups",
        ("consumeEnable", "consumeBroadcastEnable", "retryQueueNums", "retryMaxTimes"),
    ),
)
"""The table, its member, what it holds, the settings without which messages are hidden or come differently."""
_MARKS = LeftBehind("marks of producer sequences", "a batch that Spark replays is stored again by Apache's broker")


class ToApache:
    """One Apache slave, and its master of ours."""

    def __init__(self, old: Peer, new: Peer, say: Callable[[str], object], clock: Clock, restart: str = "") -> None:
        """`restart`: a command that starts the new broker as the master; without it the operator is told to."""
        self._old, self._new = old, new
        self._say = say
        self._clock = clock
        self._restart = restart

    async def check(self) -> list[LeftBehind]:
        """What does not come along. UsageError if the slave does not follow, or lacks some of the log."""
        _check_command(self._restart)
        if not self._old.is_ours:
            raise UsageError(
                f"{self._old.address} and {self._new.address} are both Apache's",
                hint="`rocketlake takeover` goes from a RocketLake broker or to one",
            )
        figures = await self._new.figures()
        if self._new.is_slave and figures.get("brokerActive") == "true":
            raise UsageError(
                f"{self._new.address} has not been started again since it handed over: it follows nobody",
                hint="start it again with the broker.conf that it has written, and wait until it has all of the log",
            )
        starts = [number(each, "commitLogMinOffset", "") for each in (await self._old.figures(), figures)]
        if starts[1] > starts[0]:
            raise UsageError(
                f"the log of {self._new.address} begins at {starts[1]}, that of {self._old.address} at {starts[0]}",
                hint="choose a slave that has the whole log: one of Apache's that began empty has the last file only",
            )
        kept = await self._kept()
        return [_MARKS, *([LeftBehind(kept, "they are deleted here, and are there still")] if kept else [])]

    async def until_copied(self) -> None:
        """Until it has just copied the tables: then they change there, or are the same."""
        self._say(f"waiting until {self._new.address} has copied the tables, which it does once a minute")
        until = self._clock.monotonic() + _COPY_SECONDS
        before = await self._progress(self._new)
        while self._clock.monotonic() < until:
            theirs = await self._progress(self._new)
            is_same = (await self._progress(self._old)).items() <= theirs.items()
            if (is_same or theirs != before) and not (await self._missing() or await self._kept()):
                break
            await self._clock.sleep(_QUICK_SECONDS)
        else:
            if missing := await self._missing():
                raise _not_copied(self._new, missing)
            if kept := await self._kept():
                raise _not_copied(self._new, f"that {kept} are deleted: they would be there again")
        await self._clock.sleep(_COPYING_SECONDS)

    async def bring(self) -> None:
        """Give it what it lacks yet, behind the stop of the old master. RocketLakeError if that cannot be."""
        lacking = await self._old.log_end() - await self._new.log_end()
        if lacking:
            raise RocketLakeError(f"{self._new.address} lacks {lacking} bytes of the log", hint="look at its log")
        if missing := await self._missing():
            raise _not_copied(self._new, missing)
        moved = await self._bring_offsets()
        self._say(f"{self._new.address} has all of the log; {counted(moved, 'offset')} of groups were brought to it")
        if again := await self._delayed():
            self._say(f"{counted(again, 'delayed message')} that were delivered in the last minute will come twice")

    async def start(self) -> None:
        """Have it started as the master. LinkError if it is none after a long time."""
        conf = self._new.settings.get("brokerConfigPath") or "its broker.conf"
        if not (self._restart and await self._is_run()):
            self._say(f"now start {self._new.address} again, with brokerRole=ASYNC_MASTER and brokerId=0 in {conf}")
        until = self._clock.monotonic() + _START_SECONDS
        while not await self._is_master():
            if self._clock.monotonic() > until:
                raise LinkError(
                    f"{self._new.address} is no master after {_START_SECONDS:.0f} s: nobody takes messages",
                    hint="start it, or go on with the RocketLake broker: docs/how-to/migrate_live.md, Back",
                )
            await self._clock.sleep(_LOOK_SECONDS)

    async def _is_run(self) -> bool:
        """Run the command; False if it did not end well."""
        self._say(f"running: {self._restart}")
        try:
            code = (await asyncio.to_thread(subprocess.run, shlex.split(self._restart), check=False)).returncode
        except OSError as error:
            self._say(f"that cannot be run: {error.strerror}")
            return False
        if code:
            self._say(f"that ended with {code}")
        return not code

    async def _is_master(self) -> bool:
        try:
            await self._new.look()
        except RocketLakeError:
            return False  # it is being started
        return not self._new.is_slave

    # -- the tables of both --------------------------------------------------------------------------------------------

    async def _missing(self) -> str:
        """Which topics or groups it does not have as they are here; "" if it has all."""
        for code, member, what, settings in _NAMED:
            theirs = (await self._new.table(code)).get(member) or {}
            ours = (await self._old.table(code)).get(member) or {}
            if lacking := sorted(ours.keys() - theirs.keys()):
                return f"{what} {_some(lacking)}"
            if other := sorted(
                name for name in ours if any(ours[name].get(k) != theirs[name].get(k) for k in settings)
            ):
                return f"settings of {what} {_some(other)}"
        return ""

    async def _kept(self) -> str:
        """Which topics or groups it has, and this broker has not; "" if there are none.

        What brokers make for themselves does not count, nor what a client's heartbeat makes at any moment.
        """
        own = {self._old.broker_name, self._old.settings.get("brokerClusterName", "")}
        found = []
        for code, member, what, _ in _NAMED:
            theirs = (await self._new.table(code)).get(member) or {}
            ours = (await self._old.table(code)).get(member) or {}
            if names := sorted(name for name in theirs.keys() - ours.keys() - own if not _is_made_by_brokers(name)):
                found.append(f"{what} {_some(names)}")
        return " and ".join(found)

    async def _progress(self, peer: Peer) -> dict[tuple[str, ...], int]:
        """Offsets of groups, and of delayed messages."""
        return {**await self._offsets(peer), **await self._delays(peer)}

    async def _delayed(self) -> int:
        """Delayed messages that were delivered, and that it would deliver again."""
        ours, theirs = await self._delays(self._old), await self._delays(self._new)
        return sum(max(0, offset - theirs.get(level, 0)) for level, offset in ours.items())

    async def _delays(self, peer: Peer) -> dict[tuple[str, ...], int]:
        """(level) -> offset."""
        table = (await peer.table(RequestCode.GET_ALL_DELAY_OFFSET)).get("offsetTable") or {}
        return {(str(level),): int(offset) for level, offset in table.items()}

    async def _bring_offsets(self) -> int:
        """Send the offsets of groups that have moved; how many that were."""
        ours, theirs = await self._offsets(self._old), await self._offsets(self._new)
        moved = {place: offset for place, offset in ours.items() if theirs.get(place) != offset}
        for (topic, group, queue_id), offset in moved.items():
            header = UpdateOffsetHeader(consumer_group=group, topic=topic, queue_id=int(queue_id), commit_offset=offset)
            gone = (ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, ResponseCode.TOPIC_NOT_EXIST)
            await self._new.ask(RequestCode.UPDATE_CONSUMER_OFFSET, header, accept=gone)
        return len(moved)

    async def _offsets(self, peer: Peer) -> dict[tuple[str, ...], int]:
        """(topic, group, queue id) -> offset."""
        table = (await peer.table(RequestCode.GET_ALL_CONSUMER_OFFSET)).get("offsetTable") or {}
        found: dict[tuple[str, ...], int] = {}
        for key, queues in table.items():
            topic, _, group = key.partition("@")
            found |= {(topic, group, str(queue_id)): int(offset) for queue_id, offset in queues.items()}
        return found


def _is_made_by_brokers(name: str) -> bool:
    return is_system_topic(name) or is_system_group(name) or is_retry_topic(name) or is_dead_letter_topic(name)


def _some(names: list[str]) -> str:
    return ", ".join(names[:3]) + (" ..." if len(names) > 3 else "")


def _not_copied(new: Peer, what: str) -> RocketLakeError:
    return RocketLakeError(
        f"{new.address} has not copied {what}", hint="repeat the command: it copies them once a minute; look at its log"
    )


def _check_command(text: str) -> None:
    """UsageError for a command that cannot be run: that would come out while nobody takes messages."""
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise UsageError(f"--restart {text!r} is no command: {error}", hint="write it as for a shell") from None
    if words and shutil.which(words[0]) is None:
        raise UsageError(f"--restart: there is no command {words[0]!r}", hint="give its path")
