"""The offsets of messages with some keys or ids, by the brokers' key index.

Owns        the choice of lookups, the test whether an answer may be used.
Must not know   Spark; the user says whether the index may be trusted (option keyIndex).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from rocketlake.base.errors import UsageError
from rocketlake.base.logs import get_logger
from rocketlake.model.message_id import parse_offset_message_id
from rocketlake.model.message_queue import MessageQueue
from rocketlake.spark.source.brokers import Brokers, of_each, places_of
from rocketlake.spark.source.options import SourceOptions

__all__ = ["look_up"]

log = get_logger(__name__)


async def look_up(
    brokers: Brokers, options: SourceOptions, wanted: Mapping[str, frozenset[str]], queues: Collection[MessageQueue]
) -> dict[MessageQueue, set[int]] | None:
    """Offsets that may hold rows with these `keys` and `msgId`; None if the index does not bound them."""
    left: dict[MessageQueue, set[int]] | None = None
    for column, values in wanted.items() if options.key_index else ():
        found = await _of_column(brokers, options, column, values, queues)
        if found is not None:
            left = found if left is None else {queue: left[queue] & found.get(queue, set()) for queue in left}
    return left


async def _of_column(
    brokers: Brokers, options: SourceOptions, column: str, values: frozenset[str], queues: Collection[MessageQueue]
) -> dict[MessageQueue, set[int]] | None:
    unique = column == "msgId"
    if unique and any(_is_place(value) for value in values):
        return None
    questions = [(*place, value) for place in places_of(queues) for value in sorted(values)]
    answers = await of_each(
        brokers,
        options,
        questions,
        lambda question: f"looking up a key of topic {question[0]} at broker {question[1]}",
        lambda question: brokers.find(*question, unique=unique),
    )
    found: dict[MessageQueue, set[int]] = {queue: set() for queue in queues}
    for (topic, broker, value), offsets in answers.items():
        if offsets is None:
            log.info("broker %s has more messages of topic %s with key %s than it tells", broker, topic, value)
            return None
        for queue, numbers in offsets.items():
            found.setdefault(queue, set()).update(numbers)
    return found


def _is_place(value: str) -> bool:
    """True for the id of a message whose producer gave it none; no index has such an id."""
    try:
        parse_offset_message_id(value)
    except UsageError:
        return False
    return True
