from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest

from rocketlake.base.errors import UsageError
from rocketlake.model.message_id import UniqueKeyMaker, offset_message_id, parse_offset_message_id

UTC = UTC


def at(*when, zone=UTC):
    return int(datetime(*when, tzinfo=zone).timestamp() * 1000)


def test_a_unique_key_holds_address_process_instance_time_in_month_and_counter():
    maker = UniqueKeyMaker("172.17.0.2", 0x10B0C, lambda: at(2026, 11, 1) + 0x123, instance=0x18B4AAC2, zone=UTC)
    assert maker.make() == "AC110002" + "0B0C" + "18B4AAC2" + "00000123" + "0000"
    assert maker.make().endswith("000001230001")


def test_an_ipv6_address_makes_a_longer_key():
    key = UniqueKeyMaker("2001:db8::1", 1, lambda: at(2026, 1, 2), zone=UTC).make()
    assert len(key) == 56
    assert key.startswith("20010DB8")


def test_keys_stay_unique_when_the_counter_wraps_within_a_millisecond_is_over():
    now = at(2026, 5, 5)
    clock = {"ms": now}
    maker = UniqueKeyMaker("127.0.0.1", 1, lambda: clock["ms"], zone=UTC)
    keys = set()
    for number in range(70_000):
        clock["ms"] = now + number // 1000
        keys.add(maker.make())
    assert len(keys) == 70_000


@pytest.mark.parametrize("zone", [UTC, timezone(timedelta(hours=8)), timezone(timedelta(hours=-7))])
def test_a_new_month_begins_at_zero_in_its_zone(zone):
    clock = {"ms": at(2026, 12, 31, 23, 59, 59, zone=zone)}
    maker = UniqueKeyMaker("127.0.0.1", 1, lambda: clock["ms"], zone=zone)
    assert int(maker.make()[20:28], 16) == (31 * 86400 - 1) * 1000
    clock["ms"] += 1000
    assert int(maker.make()[20:28], 16) == 0
    clock["ms"] -= 5000  # the clock was set back into the old month
    assert int(maker.make()[20:28], 16) == (31 * 86400 - 5) * 1000


@pytest.mark.parametrize(("host", "length"), [("170.187.204.221", 32), ("2001:db8::1", 56)])
def test_an_offset_id_is_taken_apart_again(host, length):
    text = offset_message_id(host, 10911, 2**40)
    assert len(text) == length
    assert parse_offset_message_id(text) == (host, 10911, 2**40)
    assert parse_offset_message_id(text.lower()) == (host, 10911, 2**40)


def test_the_layout_of_an_offset_id():
    assert offset_message_id("170.187.204.221", 10911, 0) == "AABBCCDD00002A9F0000000000000000"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "xyz",
        "AB",
        "0" * 31,
        "0" * 33,
        "g" * 32,
        " " * 32,
        "AABBCCDD" + "7FFFFFFF" + "0" * 16,
        "AABBCCDD00000001" + "F" * 16,
        "00 " * 16,
    ],
)
def test_what_is_no_offset_id_is_refused(text):
    with pytest.raises(UsageError, match="message id"):
        parse_offset_message_id(text)


def test_a_run_of_keys_is_as_good_as_one_after_the_other() -> None:
    def maker() -> UniqueKeyMaker:
        return UniqueKeyMaker("127.0.0.1", 1, lambda: at(2026, 1, 2), zone=UTC)

    one_by_one, runs = maker(), maker()
    single = [one_by_one.make() for _ in range(66_000)]
    assert [runs.make(), *runs.make_run(1), *runs.make_run(65_990), *runs.make_run(7), runs.make()] == single
    assert single[65_536] == single[0], "the number begins again"
