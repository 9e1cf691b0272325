"""Which process counts under an id, by what the controller tells."""

from __future__ import annotations

from pathlib import Path

from rocketlake.base.disk.memory import MemoryFiles
from rocketlake.broker.replicas.known_lives import KnownLives
from rocketlake.protocol.life_mark import life_mark, marks_from_text, marks_to_text
from rocketlake.store.message_store import MessageStore
from tests.replica_group import STORE


def test_another_life_ends_the_connections_of_its_id_and_older_news_change_nothing() -> None:
    replaced: list[int] = []
    log = MessageStore(Path("/s"), STORE, files=MemoryFiles()).log
    lives = KnownLives(replaced.append, lambda: None, log)
    assert lives.knows(2, "any")  # Apache's controller tells none
    lives.learn((3, 5), {1: "a", 2: "b"})
    replaced.clear()
    lives.learn((3, 6), {1: "a", 2: "c", 3: "d"})
    assert (replaced, lives.knows(2, "b"), lives.knows(2, "c"), lives.knows(4, "c")) == ([2, 3], False, True, False)
    lives.learn((3, 5), {1: "a", 2: "b"})  # of a controller that is behind
    lives.learn((4, 7), {})
    assert (replaced, lives.knows(2, "c")) == ([2, 3], True)
    lives.learn((4, 1), {1: "a"})  # 2 and 3 were removed
    assert (replaced, lives.knows(2, "c")) == ([2, 3, 2, 3], False)


def test_marks_are_told_as_one_text() -> None:
    text = marks_to_text({2: "two", 1: "one", 3: ""})
    assert marks_from_text(text) == {1: life_mark("one"), 2: life_mark("two")}
    assert marks_from_text("") == marks_from_text("x:y;4:;:a") == {}
