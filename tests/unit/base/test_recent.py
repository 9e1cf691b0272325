from __future__ import annotations

from rocketlake.base.clock import ManualClock
from rocketlake.base.recent import Recent


def test_a_value_is_forgotten_when_its_time_is_over() -> None:
    clock = ManualClock()
    recent: Recent[int] = Recent(clock, 2.0)
    recent.put("a", 1)
    clock.advance(1999)
    assert recent.get("a") == 1
    clock.advance(1)
    assert recent.get("a") is None


def test_a_value_that_is_put_again_lives_anew() -> None:
    clock = ManualClock()
    recent: Recent[int] = Recent(clock, 2.0)
    recent.put("a", 1)
    clock.advance(1500)
    recent.put("b", 2)
    recent.put("a", 3)
    clock.advance(1500)
    assert (recent.get("a"), recent.get("b")) == (3, 2)
    recent.forget("a")
    recent.forget("c")
    assert (recent.get("a"), recent.get("c")) == (None, None)


def test_a_process_that_stands_still_while_it_puts_a_value_is_harmless() -> None:
    class Standstill(ManualClock):
        def monotonic(self) -> float:
            self.advance(3000)
            return super().monotonic()

    recent: Recent[int] = Recent(Standstill(), 2.0)
    recent.put("a", 1)
    assert recent.get("a") is None


def test_names_do_not_gather() -> None:
    clock = ManualClock()
    recent: Recent[int] = Recent(clock, 2.0)
    sizes = set()
    for number in range(1000):
        recent.put(str(number), number)
        clock.advance(500)
        sizes.add(len(recent))
    assert max(sizes) == 4
