from __future__ import annotations

import pytest

from rocketlake.base.clock import ManualClock
from rocketlake.broker.stats import BrokerStats


class World:
    def __init__(self) -> None:
        self.clock = ManualClock()
        self.stats = BrokerStats("C", self.clock)

    def pass_seconds(self, seconds: int) -> None:
        for _ in range(seconds // 10):
            self.clock.advance(10_000)
            self.stats.take_samples()


@pytest.fixture
def world() -> World:
    return World()


def test_puts_are_counted_by_topic_and_in_all(world: World) -> None:
    world.stats.count_put("T", 3, 300)
    world.stats.count_put("U", 1, 50)
    found = world.stats.find("TOPIC_PUT_NUMS", "T")
    assert found is not None and (found.total, found.calls) == (3, 1)
    found = world.stats.find("TOPIC_PUT_SIZE", "T")
    assert found is not None and found.total == 300
    found = world.stats.find("BROKER_PUT_NUMS", "C")
    assert found is not None and found.total == 4
    assert (world.stats.put_times, world.stats.put_bytes) == (4, 350)


def test_system_topics_do_not_count_as_traffic(world: World) -> None:
    world.stats.count_put("SCHEDULE_TOPIC_XXXX", 1, 10)
    assert world.stats.find("BROKER_PUT_NUMS_WITHOUT_SYSTEM_TOPIC", "C") is None


def test_gets_are_counted_by_topic_and_group(world: World) -> None:
    world.stats.count_get("g", "T", 5, 500)
    found = world.stats.find("GROUP_GET_NUMS", "T@g")
    assert found is not None and found.total == 5
    assert world.stats.got_messages == 5


def test_a_rate_is_taken_over_the_last_minute(world: World) -> None:
    world.stats.count_put("T", 1, 1)
    world.pass_seconds(10)
    world.stats.count_put("T", 600, 600)
    world.pass_seconds(60)
    assert world.stats.per_second("TOPIC_PUT_NUMS", "T") == pytest.approx(10.0)
    assert world.stats.put_per_second == pytest.approx(10.0)
    world.pass_seconds(60)
    assert world.stats.per_second("TOPIC_PUT_NUMS", "T") == 0.0


def test_hours_and_days_are_sampled_more_rarely(world: World) -> None:
    world.stats.count_put("T", 1, 1)
    world.pass_seconds(2 * 3600 + 10)
    counter = world.stats.find("TOPIC_PUT_NUMS", "T")
    assert counter is not None
    assert (len(counter.minute), len(counter.hour), len(counter.day)) == (7, 7, 4)  # the first with the zero before it


def test_dead_letters_are_counted_beside_send_backs(world: World) -> None:
    world.stats.count_send_back("g", "T", is_dead=False)
    world.stats.count_send_back("g", "T", is_dead=True)
    sent_back, dead = world.stats.find("SNDBCK_PUT_NUMS", "T@g"), world.stats.find("SNDBCK2DLQ_TIMES", "T@g")
    assert sent_back is not None and dead is not None
    assert (sent_back.total, dead.total) == (2, 1)


def test_deleted_topics_and_groups_are_forgotten(world: World) -> None:
    world.stats.count_put("T", 1, 1)
    world.stats.count_get("g", "T", 1, 1)
    world.stats.count_get("h", "U", 1, 1)
    list(world.stats.forget_topic("T"))
    world.stats.count_put("T", 2, 20)
    counted_anew = world.stats.find("TOPIC_PUT_NUMS", "T")
    assert counted_anew is not None and counted_anew.total == 2
    list(world.stats.forget_topic("T"))
    assert world.stats.find("TOPIC_PUT_NUMS", "T") is None
    assert world.stats.find("GROUP_GET_NUMS", "T@g") is None
    world.stats.count_get("g", "T", 3, 30)
    got_anew = world.stats.find("GROUP_GET_NUMS", "T@g")
    assert got_anew is not None and got_anew.total == 3
    list(world.stats.forget_group("h"))
    assert world.stats.find("GROUP_GET_NUMS", "U@h") is None


async def test_samples_are_taken_every_ten_seconds(world: World) -> None:
    await world.stats.start()
    world.stats.count_put("T", 1, 1)
    await world.clock.run_for(35_000)
    counter = world.stats.find("TOPIC_PUT_NUMS", "T")
    assert counter is not None and len(counter.minute) == 1 + 3
    await world.stats.stop()


def test_the_first_sample_counts_from_zero_as_apaches_does(world: World) -> None:
    world.stats.count_put("T", 8, 8)
    world.pass_seconds(10)
    found = world.stats.find("TOPIC_PUT_NUMS", "T")
    assert found is not None
    assert [found.rate(samples).total for samples in (found.minute, found.hour, found.day)] == [8, 8, 8]


def test_what_was_put_up_to_each_morning_is_kept(world: World) -> None:
    hours = 3600
    world.stats.count_put("T", 5, 5)
    world.pass_seconds(24 * hours)
    assert world.stats.put_mornings == (0, 5)
    world.stats.count_put("T", 2, 2)
    world.stats.count_get("g", "T", 1, 1)
    world.pass_seconds(24 * hours)
    assert world.stats.put_mornings == (5, 7)
    assert world.stats.got_mornings == (0, 1)
