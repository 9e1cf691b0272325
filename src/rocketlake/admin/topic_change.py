"""The effects of an alteration of a topic: settings before and after, and messages that come out of reach.

Owns        TopicChange, the words for a topic's settings, the refusal of losses.
Must not know   how brokers are told.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from rocketlake.admin.words import counted
from rocketlake.base.errors import ConflictError
from rocketlake.model.message_queue import MessageQueue
from rocketlake.model.topic import TopicConfig
from rocketlake.protocol.bodies.stats import TopicOffsets

__all__ = ["TopicChange", "moves_keys", "refuse_losses", "settings_text"]


@dataclasses.dataclass(frozen=True, slots=True)
class TopicChange:
    """New values for settings of a topic; None: the setting stays as it is."""

    read_queues: int | None = None
    write_queues: int | None = None
    perm: int | None = None
    attributes: str = ""
    """Changes of attributes: `+a=1,-b`."""

    @property
    def is_empty(self) -> bool:
        """True when there is nothing to change."""
        return self.read_queues is None and self.write_queues is None and self.perm is None and not self.attributes

    def of(self, config: TopicConfig) -> TopicConfig:
        """These settings with the changes, but for those of attributes: a broker works them out."""
        given = {name: value for name, value in dataclasses.asdict(self).items() if value is not None}
        del given["attributes"]
        return dataclasses.replace(config, **given)


def moves_keys(before: Mapping[str, TopicConfig], after: Mapping[str, TopicConfig]) -> bool:
    """True if equal keys go to another queue than before: their queue follows from the number of queues."""
    return _written(before) != _written(after)


def _written(settings: Mapping[str, TopicConfig]) -> int:
    return sum(config.write_queues for config in settings.values() if config.is_writeable)


def refuse_losses(
    before: Mapping[str, TopicConfig],
    after: Mapping[str, TopicConfig],
    queues: Mapping[MessageQueue, TopicOffsets],
    *,
    where: str,
) -> None:
    """Raises RocketLakeError if messages stored now, or later, could not be read."""
    for broker, config in after.items():
        if config.write_queues > max(config.read_queues, before[broker].write_queues):
            raise ConflictError(
                f"topic {config.name!r} would be written to {counted(config.write_queues, 'queue')} "
                f"and read from {config.read_queues} only",
                where=where,
                hint="raise --read-queues, too (--queues is both), or --force",
            )
    shut = [broker for broker, config in after.items() if before[broker].is_readable and not config.is_readable]
    waiting = sum(ends.max_offset - ends.min_offset for queue, ends in queues.items() if queue.broker_name in shut)
    if waiting:
        raise ConflictError(
            f"topic {after[shut[0]].name!r} could not be read any more on {', '.join(shut)}: "
            f"{counted(waiting, 'message')} out of reach, and all its consumers stop",
            where=where,
            hint="leave the r in --perm, or --force (--perm rw brings the messages back)",
        )
    gone = [
        queue
        for queue in queues
        if queue.broker_name in after
        and after[queue.broker_name].read_queues <= queue.queue_id < before[queue.broker_name].read_queues
    ]
    if not gone:
        return
    messages = sum(queues[queue].max_offset - queues[queue].min_offset for queue in gone)
    named = ", ".join(f"{queue.broker_name}/{queue.queue_id}" for queue in gone[:8])
    more = f" and {len(gone) - 8} more" if len(gone) > 8 else ""
    raise ConflictError(
        f"queues {named}{more} of topic {gone[0].topic!r} could not be read any more: "
        f"{counted(messages, 'message')} out of reach",
        where=where,
        hint="reduce --write-queues first and let the consumers empty these queues; "
        "or --force (more queues bring the messages back)",
    )


def settings_text(settings: Mapping[str, TopicConfig], *, brokers: bool = True) -> str:
    """ "4 queues, rw on broker-a, broker-b"."""
    texts: dict[str, list[str]] = {}
    for broker, config in settings.items():
        read, write = config.read_queues, config.write_queues
        queues = counted(read, "queue") if read == write else f"{read} queues to read and {write} to write"
        letters = ("r" if config.is_readable else "") + ("w" if config.is_writeable else "")
        texts.setdefault(f"{queues}, {letters or 'neither r nor w'}", []).append(broker)
    return "; ".join(text + (f" on {', '.join(names)}" if brokers else "") for text, names in texts.items())
