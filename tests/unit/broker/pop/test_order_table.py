from __future__ import annotations

from pathlib import Path

from rocketlake.base.clock import ManualClock
from rocketlake.base.disk.memory import MemoryFiles
from rocketlake.base.java.json_text import parse
from rocketlake.broker.pop.order_table import ILLEGAL, STALE, OrderTable

KEY = "g", "T", 1

OF_APACHE = """{
	"orderInfoCount":1,
	"orderedConsumptionLevel":"QUEUE",
	"table":{
		"T@g":{
			1:{
				"a":"at3",
				"cm":1,
				"i":60000,
				"l":%d,
				"o":[6,3],
				"oc":{
					6:2
				},
				"popTime":3000
			}
		}
	}
}"""
"""As Apache's broker 5.5.0 wrote it after three pops by three attempts, and an acknowledgement of message 6."""


def table_of(clock: ManualClock) -> OrderTable:
    return OrderTable(Path("/config/consumerOrderInfo.json"), MemoryFiles(clock=clock), clock)


def test_counts_are_those_of_apache() -> None:
    table = table_of(ManualClock())
    assert table.hand_out(KEY, "at1", 1000, 60_000, [5, 6, 8]) == ["0 1 0"]
    assert table.hand_out(KEY, "at2", 2000, 60_000, [5, 6, 8]) == ["0 qo1%5 1", "0 qo1%6 1", "0 qo1%8 1", "0 1 1"]
    assert table.acknowledge(KEY, 5, 2000, 5) == 6
    assert table.acknowledge(KEY, 8, 2000, 6) == 6
    assert table.hand_out(KEY, "at3", 3000, 60_000, [6, 9]) == ["0 qo1%6 2", "0 1 0"]
    assert table.acknowledge(KEY, 6, 2000, 6) == STALE
    assert table.acknowledge(KEY, 7, 3000, 6) == ILLEGAL
    assert table.acknowledge(KEY, 6, 3000, 6) == 9
    assert table.acknowledge(KEY, 9, 3000, 9) == 10


def test_of_a_pop_that_is_not_known_only_the_next_message_moves_the_group() -> None:
    table = table_of(ManualClock())
    assert table.acknowledge(KEY, 7, 1000, 5) == STALE, "5 and 6 may be open"
    assert table.acknowledge(KEY, 5, 1000, 5) == 6
    assert table.acknowledge(KEY, 5, 1000, 6) == STALE, "no group goes back"


def test_a_message_before_the_committed_offset_moves_no_group() -> None:
    table = table_of(ManualClock())
    table.hand_out(KEY, "at1", 1000, 60_000, [5, 6])
    assert table.acknowledge(KEY, 5, 1000, 6) == STALE


def test_the_same_attempt_counts_no_try() -> None:
    table = table_of(ManualClock())
    table.hand_out(KEY, "at1", 1000, 60_000, [5, 6])
    assert table.hand_out(KEY, "at1", 2000, 60_000, [5, 6]) == ["0 1 0"]


def test_a_queue_is_blocked_until_the_last_open_message_may_come_again() -> None:
    clock = ManualClock()
    table = table_of(clock)
    now = clock.now_ms()
    table.hand_out(KEY, "at1", now, 1000, [5, 6])
    assert table.blocked_until(KEY, "at2") == now + 1000
    assert table.blocked_until(KEY, None) == now + 1000
    assert table.blocked_until(KEY, "at1") == 0
    table.change(KEY, 6, now, now + 5000)
    assert table.blocked_until(KEY, "at2") == now + 5000
    table.acknowledge(KEY, 6, now, 5)
    assert table.blocked_until(KEY, "at2") == now + 1000
    table.acknowledge(KEY, 5, now, 5)
    assert table.blocked_until(KEY, "at2") == 0


def test_the_file_of_apache_is_read_and_written() -> None:
    clock = ManualClock()
    table = table_of(clock)
    text = OF_APACHE % clock.now_ms()
    assert table.replace(text)
    assert table.acknowledge(KEY, 9, 3000, 6) == 10
    assert table.hand_out(KEY, "at4", 4000, 1, [6]) == ["0 qo1%6 3", "0 1 3"]
    table.replace(text)
    assert parse(table.to_text())["table"] == parse(text)["table"]


def test_what_nobody_has_touched_for_a_day_is_forgotten() -> None:
    clock = ManualClock()
    table = table_of(clock)
    table.hand_out(KEY, "at1", 1000, 60_000, [5])
    clock.advance(24 * 3_600_000 + 1)
    assert "T@g" not in table.to_text()
