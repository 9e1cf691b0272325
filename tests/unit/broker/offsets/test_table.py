from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocketlake.base.clock import ManualClock
from rocketlake.base.disk.memory import MemoryFiles
from rocketlake.base.errors import StoreError
from rocketlake.base.java.java_pretty import to_pretty_text
from rocketlake.base.java.json_text import parse
from rocketlake.broker.offsets.table import OffsetTable

GOLDEN = Path(__file__).parents[3] / "golden/stores/apache-5.3.3-clean/config/consumerOffset.json"
PATH = Path("/store/config/consumerOffset.json")


def make_table(files: MemoryFiles | None = None, version_step: int = 500) -> OffsetTable:
    return OffsetTable(PATH, files or MemoryFiles(), ManualClock(), version_step)


def with_text(text: bytes) -> MemoryFiles:
    files = MemoryFiles()
    files.make_dirs(PATH.parent)
    files.write_bytes(PATH, text)
    return files


def test_a_file_written_by_apache_is_written_back_byte_for_byte() -> None:
    table = make_table(with_text(GOLDEN.read_bytes()))
    table.load()
    assert table.query("golden_group", "Golden", 0) == 201
    assert table.to_text() == GOLDEN.read_text()


def test_what_was_never_committed_is_minus_one() -> None:
    table = make_table()
    table.commit("g", "T", 0, 5)
    assert table.query("g", "T", 0) == 5
    assert table.query("g", "T", 1) == -1
    assert table.query("g", "U", 0) == -1
    assert table.query("h", "T", 0) == -1


def test_a_consumer_may_go_back() -> None:
    table = make_table()
    table.commit("g", "T", 0, 5)
    table.commit("g", "T", 0, 3)
    assert table.query("g", "T", 0) == 3


def test_a_restart_offset_hides_the_committed_one_until_it_is_taken_once() -> None:
    table = make_table()
    table.commit("g", "T", 0, 5)
    table.assign_reset("g", "T", 0, 2)
    table.commit("g", "T", 0, 9)
    assert table.has_reset("g", "T", 0)
    assert table.query("g", "T", 0) == 2
    assert table.take_reset("g", "T", 0) == 2
    assert table.take_reset("g", "T", 0) == -1
    assert not table.has_reset("g", "T", 0)
    assert table.query("g", "T", 0) == 9


def test_the_data_version_grows_once_every_so_many_commits() -> None:
    table = make_table(version_step=3)
    before = table.data_version
    table.commit("g", "T", 0, 1)
    table.commit("g", "T", 0, 2)
    assert table.data_version == before
    table.commit("g", "T", 0, 3)
    assert table.data_version.counter == before.counter + 1


def test_topics_and_groups_are_found_from_both_sides() -> None:
    table = make_table()
    table.commit("g", "T", 0, 1)
    table.commit("g", "U", 0, 1)
    table.commit("h", "T", 0, 1)
    assert table.topics_of("g") == ["T", "U"]
    assert table.groups_of("T") == {"g", "h"}
    list(table.remove_group("g"))
    assert table.groups_of("T") == {"h"}
    list(table.remove_topic("T", lambda _group: True))
    assert table.groups_of("T") == set()
    assert list(table.all()) == []


def test_a_running_group_begins_anew_in_a_topic_that_was_deleted() -> None:
    table = make_table()
    for group in ("running", "ended"):
        table.commit(group, "T", 0, 90)
        table.commit_pull(group, "T", 0, 100)
        table.commit_pull(group, "U", 0, 100)
    list(table.remove_topic("T", lambda group: group == "running"))
    assert [table.has_reset(group, "T", 0) for group in ("running", "ended")] == [True, False]
    assert not table.has_reset("running", "U", 0)
    assert list(table.all()) == []  # nothing of it is saved
    assert table.take_reset("running", "T", 0) == 0
    assert table.query("running", "T", 0) == -1


def test_a_copied_group_has_the_offsets_of_its_source() -> None:
    table = make_table()
    table.commit("old", "T", 0, 1)
    table.commit("old", "T", 3, 9)
    table.copy_group("old", "new", "T")
    assert table.queues("new", "T") == {0: 1, 3: 9}


def test_saved_offsets_come_back_and_pull_offsets_do_not() -> None:
    files = MemoryFiles()
    table = make_table(files)
    table.commit("%weird|group", "T", 7, 2**62)
    table.commit("g@broadcast", "T", 0, 1)
    table.commit_pull("g", "T", 0, 44)
    assert table.query_pull("g", "T", 0) == 44
    table.save()
    again = make_table(files)
    again.load()
    assert again.query("%weird|group", "T", 7) == 2**62
    assert again.query("g@broadcast", "T", 0) == 1
    assert again.query_pull("g", "T", 0) == -1
    assert not again.changed


def test_nothing_changed_is_not_written_again() -> None:
    files = MemoryFiles()
    table = make_table(files)
    table.save()
    assert not files.exists(PATH)


def test_quoted_queue_ids_of_other_writers_are_read() -> None:
    table = make_table(with_text(b'{"offsetTable":{"T@g":{"0":5,"1":6}}}'))
    table.load()
    assert table.queues("g", "T") == {0: 5, 1: 6}


def test_a_file_that_is_json_but_no_offset_table_says_so() -> None:
    with pytest.raises(StoreError, match=r"consumer offsets cannot be read.*consumerOffset\.json"):
        make_table(with_text(b'{"offsetTable":{"T@g":[1,2]}}')).load()


names = st.sampled_from(["T", "%RETRY%g", "g", 'quote"', "Grüße"])
commits = st.tuples(names, names, st.integers(0, 3), st.integers(-(2**63), 2**63 - 1))


@given(st.lists(st.lists(commits, max_size=5), max_size=4), names)
def test_the_text_is_the_pretty_form_of_the_table_after_any_commits_and_removals(
    rounds: list[list[tuple[str, str, int, int]]], gone: str
) -> None:
    table = make_table()
    for number, commits_of_round in enumerate(rounds):
        for group, topic, queue_id, offset in commits_of_round:
            table.commit(group, topic, queue_id, offset)
        if number == 2:
            list(table.remove_topic(gone, lambda _group: True))
        offsets = {f"{topic}@{group}": queues for group, topic, queues in table.all()}
        topics: dict[str, set[str]] = {}
        for group, topic, _ in table.all():
            topics.setdefault(group, set()).add(topic)
        version = {"counter": 0, "stateVersion": 0, "timestamp": table.data_version.timestamp}
        wanted = {"dataVersion": version, "groupTopicMap": topics, "offsetTable": offsets}
        text = table.to_text()
        wanted["offsetTable"] = {key: offsets[key] for key in parse(text)["offsetTable"]}
        assert len(wanted["offsetTable"]) == len(offsets)
        assert text == to_pretty_text(wanted)
