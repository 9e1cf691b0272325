"""Both forms of the gathering of messages: the same batches in the same order, the same room, the same ends."""

from __future__ import annotations

import contextvars
import random
from collections.abc import Callable
from typing import Any

import pytest

from rocketlake.model.message import Message
from rocketlake.model.message_queue import MessageQueue
from tests.parity.forms import outcome

NAME = "rocketlake.client.producer.gathering"
KEY_BYTES = 32
QUEUES = (None, MessageQueue("T", "a", 0), MessageQueue("T", "a", 1))


class World:
    """One form of it, and all that it did."""

    def __init__(self, form: Any) -> None:
        self.form = form
        self.seen: list[Any] = []
        self.going: list[Any] = []
        self.opened: list[Any] = []
        self.background = form.Background()
        self.gathering = form.Gathering(
            batch_bytes=2000, alone_over=900, room=5000, key_bytes=KEY_BYTES, opened=self._open, began=self._begin
        )

    def _open(self, batch: Any) -> None:
        batch.due = float(len(self.opened))
        self.opened.append(batch)
        self.seen.append(("opened", batch.key, batch.size))

    def _begin(self, batch: Any) -> None:
        self.going.append(batch)
        texts = [entry.text for entry in batch.entries]
        bodies = [entry.message.body for entry in batch.entries]
        self.seen.append(("began", batch.key, batch.size, batch.limit_ms, batch.wait, batch.due, bodies, texts))

    def take(self, message: Message, queue: MessageQueue | None, limit_ms: int, number: int) -> None:
        end = self.form.CallbackEnd(self.background, lambda *told: self.seen.append((number, *told)))
        self.gathering.take(message, queue, limit_ms, end)

    def end(self, place: int, give_up: int) -> None:
        """The batch at this place of those on their way has its results; one of its messages was given up before."""
        batch = self.going.pop(place % len(self.going))
        if give_up < len(batch.entries):
            batch.entries[give_up].end.set_exception(ValueError("given up"))
        entries = batch.waited_for()
        keys = [f"{number:032d}" for number in range(len(entries))]
        if all(entry.text is not None for entry in entries):
            messages, texts, behind, ids = self.form.give_keys(entries, keys)
            self.seen.append(([message.properties for message in messages], texts, behind, ids))
        self.form.tell(entries, [f"result {number}" for number in range(len(entries))])
        self.gathering.free(batch.size)

    def state(self) -> Any:
        """What waits, and how much has happened."""
        waiting = [entry.message.body for entry in self.gathering.entries()]
        return waiting, self.gathering.next_due(), self.background.count, len(self.seen)


def message(numbers: random.Random) -> Message:
    body = numbers.randbytes(numbers.choice((1, 50, 400, 880, 899, 900, 1500)))
    kind = numbers.randrange(12)
    if kind == 0:
        return Message("T", body, delay_level=3)
    if kind == 1:
        return Message.with_properties("T", body, {"UNIQ_KEY": "own", "a": "b"})
    if kind == 2:
        return Message("T", body, keys="k" * numbers.choice((32_720, 32_722)))
    if kind == 3:
        made = Message("T", body)
        made.wait_store_ok = False
        return made
    if kind == 4:
        return Message("T", body, flag=numbers.choice((1 << 31, -(1 << 31))))
    return Message(numbers.choice(("T", "T", "T", "U", "%RETRY%g")), body, tags=numbers.choice((None, "标签")))


@pytest.mark.parametrize("seed", range(8))
def test_any_order_of_calls(twin: Callable[[str], Any], seed: int) -> None:
    pair, numbers = twin(NAME), random.Random(seed)
    worlds = World(pair.source), World(pair.compiled)
    for number in range(300):
        step, place, give_up = numbers.randrange(10), numbers.randrange(100), numbers.randrange(8)
        made, queue, limit_ms = message(numbers), numbers.choice(QUEUES), numbers.choice((3000, 3000, 3000, 500))
        for world in worlds:
            if step < 7:
                own = Message.with_properties(made.topic, made.body, made.properties, flag=made.flag)
                world.take(own, queue, limit_ms, number)
            elif step == 7:
                world.gathering.close_due(float(len(world.opened) - 2))
            elif world.going:
                world.end(place, give_up)
        assert worlds[0].state() == worlds[1].state()
    for world in worlds:
        world.gathering.close_due(float("inf"))
        while world.going:
            world.end(0, 99)
            world.gathering.close_due(float("inf"))
        assert world.gathering.entries() == []
        assert world.background.count == 0
    assert repr(worlds[0].seen) == repr(worlds[1].seen)  # the errors in it are equal by their words alone


def test_a_separator_in_a_property_is_refused_at_once(twin: Callable[[str], Any]) -> None:
    pair = twin(NAME)
    outcomes = []
    for form in (pair.source, pair.compiled):
        world = World(form)
        bad = Message.with_properties("T", b"x", {"a": "\x01"})
        outcomes.append(outcome(world.gathering.take, (bad, None, 3000, form.CallbackEnd(world.background, None)), {}))
        assert world.gathering.entries() == []
    assert outcomes[0] == outcomes[1]
    assert outcomes[0][0] == "error"


def test_a_callback_runs_in_the_context_of_its_send(twin: Callable[[str], Any], caplog: Any) -> None:
    pair, place = twin(NAME), contextvars.ContextVar("place", default="nowhere")
    for form in (pair.source, pair.compiled):
        seen: list[Any] = []
        background = form.Background()
        place.set("send")
        end = form.CallbackEnd(background, lambda *told, seen=seen: seen.append((place.get(), *told)))
        silent = form.CallbackEnd(background, None)
        place.set("elsewhere")
        assert (background.count, end.done()) == (2, False)
        error = ValueError("lost")
        end.set_exception(error)
        silent.set_exception(error)
        assert (background.count, end.done(), seen) == (0, True, [("send", None, error)])
    assert [record.getMessage() for record in caplog.records] == ["background send failed: lost"] * 2


def test_a_callback_that_raises(twin: Callable[[str], Any], caplog: Any) -> None:
    def fail(result: object, error: object) -> None:
        raise RuntimeError("broken")

    pair = twin(NAME)
    for form in (pair.source, pair.compiled):
        form.CallbackEnd(form.Background(), fail).set_result("result")
    assert [record.getMessage() for record in caplog.records] == ["the callback of a background send failed"] * 2
