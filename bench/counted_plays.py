"""What is played to a broker while its machine instructions are counted.

Owns        the frames of each play, their order, and how many answers each of them gets.
Must not know   how a broker is started and fed (counted_broker.py), how instructions are counted (instructions.py).

A play has steps: bytes for one of two connections, and the answers that both get before the next step begins. The steps
of `prepare` are not counted: they fill the store, register the consumer and warm the caches of the broker.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from bench.generator import Template
from bench.micro.in_process import GROUP, TOPIC, pull
from rocketlake.model.pop import ANY_QUEUE
from rocketlake.protocol.bodies.heartbeat import ConsumerEntry, Heartbeat, SubscriptionEntry
from rocketlake.protocol.bodies.pop import AckEntry, BatchAckBody
from rocketlake.protocol.command import Codec, Command
from rocketlake.protocol.frame import encode_command
from rocketlake.protocol.headers.admin_topic import CreateTopicHeader
from rocketlake.protocol.headers.pop import PopHeader
from rocketlake.protocol.request_code import RequestCode

__all__ = ["PLAYS", "PRODUCER", "READER", "Play", "Step"]

PRODUCER, READER = 0, 1
"""The two connections."""
Step = tuple[int, bytes, int, int]
"""Connection, bytes for it, answers that the producer gets, answers that the reader gets."""
BODY_BYTES = 1024
FILL_CHUNK = 64
POP_TOPIC, POP_QUEUES = "PopLoad", 8
PULL_MESSAGES = 32


@dataclass
class Play:
    """`messages`: how many messages the counted steps send or read."""

    prepare: list[Step] = field(default_factory=list)
    counted: list[Step] = field(default_factory=list)
    messages: int = 0


def sends(count: int, warm: int, counted: int) -> Play:
    """Messages for 900 queues, `count` of them a chunk; `warm` makes all queues."""
    steps = _sends(range(100, 1000), count, warm + counted)
    warm_steps = warm // count
    return Play(steps[:warm_steps], steps[warm_steps:], counted)


def pulls(rounds: int) -> Play:
    """Pulls of 32 messages, 4 pulls a chunk; each round reads the store once. Records of a queue lie apart."""
    queues, stored = range(100, 200), 6400
    play = Play(_sends(queues, FILL_CHUNK, stored), messages=rounds * stored)
    play.prepare.append(_registration())
    offsets = range(0, stored // len(queues), PULL_MESSAGES)
    frames = [pull(queue, offset) for offset in offsets for queue in queues]
    chunks = [(READER, b"".join(frames[first : first + 4]), 0, 4) for first in range(0, len(frames), 4)]
    play.prepare += chunks
    play.counted += chunks * rounds
    return play


def held(warm: int, counted: int) -> Play:
    """Messages sent one by one, each to a queue at which a pull is held; the reader pulls again after each of them."""
    queues = range(100, 164)
    play = Play([_registration(), (READER, b"".join(pull(queue, 0) for queue in queues), 0, 0)], messages=counted)
    for number, (_, frame, _, _) in enumerate(_sends(queues, 1, warm + counted)):
        again = pull(queues[number % len(queues)], number // len(queues) + 1)
        target = play.prepare if number < warm else play.counted
        target += [(PRODUCER, frame, 1, 1), (READER, again, 0, 0)]
    return play


def pops(warm: int, counted: int) -> Play:
    """Pops of 32 messages, each acknowledged by one request; the messages lie in rows of 32 of one queue, as Java's
    batches. Times of the handles are none that the broker has given: it does not look at that."""
    queues = [queue for queue in range(POP_QUEUES) for _ in range(PULL_MESSAGES)]
    play = Play(
        _sends(queues, FILL_CHUNK, PULL_MESSAGES * (warm + counted + POP_QUEUES), POP_TOPIC),
        messages=PULL_MESSAGES * counted,
    )
    play.prepare = [_with_queues(POP_QUEUES), _registration(), *play.prepare]
    now_ms = int(time.time() * 1000)
    for number in range(warm + counted):
        queue, row = number % POP_QUEUES, number // POP_QUEUES
        entry = AckEntry(
            bits=b"\xff" * (PULL_MESSAGES // 8),
            group=GROUP,
            invisible_ms=6 * 3600_000,
            pop_ms=now_ms,
            queue_id=queue,
            revive_queue=number % 8,
            start_offset=PULL_MESSAGES * row,
            topic=POP_TOPIC,
        )
        body = BatchAckBody(acks=[entry], broker_name="broker-a").encode()
        header = PopHeader(
            consumer_group=GROUP,
            topic=POP_TOPIC,
            queue_id=ANY_QUEUE,
            max_msg_nums=PULL_MESSAGES,
            invisible_time=6 * 3600_000,
            poll_time=1000,
            born_time=0,
            init_mode=0,
            exp="*",
            exp_type="TAG",
        )
        target = play.prepare if number < warm else play.counted
        target.append((READER, _frame(Command.request(RequestCode.POP_MESSAGE, header)), 0, 1))
        target.append((READER, _frame(Command.request(RequestCode.BATCH_ACK_MESSAGE, body=body)), 0, 1))
    return play


def _with_queues(count: int) -> Step:
    """The topic with so many queues."""
    header = CreateTopicHeader(
        topic=POP_TOPIC,
        default_topic="TBW102",
        read_queue_nums=count,
        write_queue_nums=count,
        perm=6,
        topic_filter_type="SINGLE_TAG",
    )
    return PRODUCER, _frame(Command.request(RequestCode.UPDATE_AND_CREATE_TOPIC, header)), 1, 0


def _frame(command: Command) -> bytes:
    return b"".join(map(bytes, encode_command(command, Codec.JSON)))


def _sends(queues: Sequence[int], count: int, messages: int, topic: str = TOPIC) -> list[Step]:
    template = Template(topic, queues, BODY_BYTES)
    return [(PRODUCER, bytes(template.frames(first, count)), count, 0) for first in range(0, messages, count)]


def _registration() -> Step:
    """The heartbeat that makes the reader a consumer of all messages of the topic."""
    subscription = SubscriptionEntry(topic=TOPIC, sub_version=1)
    body = Heartbeat(client_id="reader", consumers=[ConsumerEntry(group_name=GROUP, subscriptions=[subscription])])
    command = Command.request(RequestCode.HEART_BEAT, body=body.encode())
    return READER, _frame(command), 0, 1


PLAYS: dict[str, tuple[str, Callable[[], Play]]] = {
    "send-1": ("send of 1 KiB, one a chunk", lambda: sends(1, 1024, 4096)),
    "send-64": ("send of 1 KiB, 64 a chunk", lambda: sends(64, 1024, 8192)),
    "pull": ("message of a pull of 32 x 1 KiB, 4 pulls a chunk", lambda: pulls(3)),
    "pop": ("message of a pop of 32 x 1 KiB and its acknowledgement", lambda: pops(32, 96)),
    "held": ("message sent to a held pull, one a chunk", lambda: held(256, 2048)),
}
"""What each play counts, and how it is made."""
