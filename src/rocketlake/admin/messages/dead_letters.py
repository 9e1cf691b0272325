"""Dead letters: which groups have some, which of them are meant, what is done with those.

Owns        the choice of letters, the steps over all that are chosen.
Must not know   how a letter is read, sent again and settled (client/dead_letters.py), the terminal.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from rocketlake.admin.cluster import Cluster
from rocketlake.admin.groups import ClusterGroups
from rocketlake.admin.results import DeadLetterGroup, LettersSettled
from rocketlake.base.errors import UsageError
from rocketlake.client.config import ClientConfig
from rocketlake.client.consumer.damage import DAMAGE
from rocketlake.client.dead_letters import DeadLetters
from rocketlake.model.message import StoredMessage
from rocketlake.model.names import DEAD_LETTER_GROUP, DEAD_LETTER_PREFIX, is_dead_letter_topic
from rocketlake.model.property_names import LAST_ERROR

__all__ = ["GroupLetters", "LetterChoice", "letter_error", "letter_groups"]

Told = Callable[[StoredMessage], object]


@dataclass(frozen=True, slots=True)
class LetterChoice:
    """Which dead letters are meant; None leaves a question open.

    `id`: of the message. `topic`: from which it came. `error`: a part of its last error. `since_ms`, `until_ms`: when
    its group gave it up, epoch ms.
    """

    id: str | None = None
    topic: str | None = None
    tag: str | None = None
    error: str | None = None
    since_ms: int | None = None
    until_ms: int | None = None

    def has(self, letter: StoredMessage) -> bool:
        """True if this letter is meant."""
        return (
            self.id in (None, letter.message_id)
            and self.topic in (None, letter.retry_topic)
            and self.tag in (None, letter.tags)
            and (self.error is None or self.error in letter_error(letter))
            and (self.since_ms is None or letter.store_ms >= self.since_ms)
            and (self.until_ms is None or letter.store_ms < self.until_ms)
        )


def letter_error(letter: StoredMessage) -> str:
    """Why it failed last; "-" for a letter of a consumer that does not tell."""
    return letter.properties.get(LAST_ERROR) or letter.properties.get(DAMAGE) or "-"


async def letter_groups(cluster: Cluster) -> list[DeadLetterGroup]:
    """All groups with dead letters."""
    found = []
    for topic in filter(is_dead_letter_topic, await cluster.topics()):
        queues = await cluster.queues(topic)
        marks = await ClusterGroups(cluster).committed(DEAD_LETTER_GROUP, queues)
        kept = sum(each.max_offset - each.min_offset for each in queues.values())
        settled = sum(max(0, marks[queue] - each.min_offset) for queue, each in queues.items())
        newest = max((each.last_update_timestamp for each in queues.values()), default=0)
        found.append(DeadLetterGroup(topic.removeprefix(DEAD_LETTER_PREFIX), kept - settled, kept, newest))
    return found


class GroupLetters:
    """Of one group, those that a choice has; None: all."""

    def __init__(self, group: str, choice: LetterChoice | None, config: ClientConfig) -> None:
        self._group, self._choice, self._config = group, choice or LetterChoice(), config

    async def look(self, tell: Told, *, settled: bool = False) -> int:
        """Call `tell` with each; returns how many there were. `settled`: also those sent again or dropped."""
        count = 0
        async with self._letters() as letters:
            async for letter in letters.read(settled=settled):
                if self._choice.has(letter):
                    tell(letter)
                    count += 1
        return count

    async def resend(self, tell: Told | None, *, to: str | None, body: bytes | None) -> LettersSettled:
        """Send each again, and call `tell` with it behind that."""
        if body is not None and self._choice.id is None:
            raise UsageError("a repaired body is that of one message", hint="say which with its id")

        async def send(letters: DeadLetters, letter: StoredMessage) -> None:
            await letters.send_again(letter, body=body, topic=to)

        return await self._settle(send, tell)

    async def drop(self, tell: Told | None) -> LettersSettled:
        """Settle each without sending it, and call `tell` with it behind that."""

        async def settle(letters: DeadLetters, letter: StoredMessage) -> None:
            await letters.drop(letter)

        return await self._settle(settle, tell)

    async def _settle(
        self, settle: Callable[[DeadLetters, StoredMessage], Awaitable[None]], tell: Told | None
    ) -> LettersSettled:
        done = 0
        async with self._letters() as letters:
            async for letter in letters.read():
                if self._choice.has(letter):
                    await settle(letters, letter)
                    if tell is not None:
                        tell(letter)
                    done += 1
            return LettersSettled(done, sum(span.open for span in (await letters.spans()).values()))

    def _letters(self) -> DeadLetters:
        return DeadLetters(self._group, client_config=self._config)
