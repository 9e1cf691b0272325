"""Records that cannot be read: each is logged, counted and, where the group has dead letters, made one.

Owns        the fate of a damaged record, the count of them.
Must not know   how it is found (calls/records.py), positions.

Rule: a consumer goes on behind a damaged record, never in silence. In clustering, a record whose body alone is damaged
goes to %DLQ%group, with its body as stored and the reason as property DAMAGE. While no broker is in reach, the queue
waits and meets the record again; when the brokers refuse the dead letter, the record is passed over.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from rocketlake.base.errors import LinkError, RemoteError, RocketLakeError, one_line
from rocketlake.base.logs import get_logger
from rocketlake.client.calls.answer import DEAD_LETTER_WAITS
from rocketlake.client.calls.records import DamagedRecord
from rocketlake.client.errors import NoRoute
from rocketlake.client.hooks import DamageEvent, Hooks, run_hooks
from rocketlake.model.message import StoredMessage

__all__ = ["DAMAGE", "Damage"]

log = get_logger(__name__)
DAMAGE = "DAMAGE"
"""The property of a dead letter that says why its body is not what was sent."""


class Damage:
    """The damaged records of one consumer; `to_dead_letters` raises RocketLakeError when it cannot."""

    def __init__(
        self, group: str, hooks: Hooks, to_dead_letters: Callable[[StoredMessage], Awaitable[None]] | None
    ) -> None:
        self._group = group
        self._hooks = hooks
        self._to_dead_letters = to_dead_letters
        self.count = 0
        """Records passed so far."""

    async def settle(self, record: DamagedRecord) -> bool:
        """Make the record a dead letter or pass over it; false when the queue must wait and meet it again."""
        is_dead_letter = False
        if self._to_dead_letters is not None and record.message is not None:
            try:
                await self._to_dead_letters(_letter(record.message, record.reason))
                is_dead_letter = True
            except RocketLakeError as error:
                if _may_pass(error):
                    log.warning("the damaged message at %s waits for its dead letters: %s", _place(record), error)
                    return False
                log.error("the damaged message at %s cannot become a dead letter: %s", _place(record), error)
        self._tell(record, is_dead_letter)
        return True

    def skip(self, records: Sequence[DamagedRecord]) -> None:
        """Pass over these records."""
        for record in records:
            self._tell(record, False)

    def _tell(self, record: DamagedRecord, is_dead_letter: bool) -> None:
        self.count += 1
        fate = f"it is in %DLQ%{self._group} as it is stored" if is_dead_letter else "it is passed over"
        log.error(
            "group %s cannot read the message at %s: %s; %s. Damaged so far: %d",
            self._group, _place(record), record.reason, fate, self.count,
        )  # fmt: skip
        if self._hooks.on_damage:
            run_hooks(self._hooks.on_damage, DamageEvent(self._group, record, is_dead_letter))


def _may_pass(error: RocketLakeError) -> bool:
    return error.code in DEAD_LETTER_WAITS if isinstance(error, RemoteError) else isinstance(error, LinkError | NoRoute)


def _place(record: DamagedRecord) -> str:
    return f"offset {record.offset} of {record.queue}"


def _letter(message: StoredMessage, reason: str) -> StoredMessage:
    message.properties[DAMAGE] = one_line(reason)
    return message
