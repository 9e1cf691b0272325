"""`produce` and `consume`: files, lines, JSON lines; from a place to a place, filters, groups, forms."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from rocketlake.base.errors import NotThereError, UsageError
from rocketlake.client.errors import NoRoute
from rocketlake.testing.cluster import EmbeddedCluster
from tests.integration.conftest import Typed


@pytest.fixture(scope="module", autouse=True)
def numbers(cluster: EmbeddedCluster) -> None:
    """A topic of one queue with the bodies 0 to 9."""
    cluster.run(_one_queue(cluster, "Numbers"))
    cluster.send("Numbers", [str(number).encode() for number in range(10)])


async def _one_queue(cluster: EmbeddedCluster, topic: str) -> None:
    from rocketlake.admin import Admin

    async with Admin(namesrv=cluster.namesrv) as admin:
        await admin.create_topic(topic, queues=1)


def objects(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


@pytest.mark.parametrize(
    ("words", "bodies"),
    [
        (("--from", "earliest", "-e"), "0123456789"),
        (("--from", "7", "-e"), "789"),
        (("--from", "-2", "--until-end"), "89"),
        (("--from", "1h", "-e", "-c", "3"), "012"),
        (("--from", "earliest", "--to", "2001-01-01"), ""),
        (("--from", "latest", "-e"), ""),
        (("--last", "4"), "6789"),
        (("--last", "99"), "0123456789"),
        (("--queue", "broker-a/0", "--last", "1"), "9"),
        (("--from", "earliest", "-e", "--grep", "7"), "7"),
        (("--from", "earliest", "-e", "--key", "none"), ""),
        (("--from", "earliest", "-e", "-t", "none"), ""),
    ],
)
def test_a_span_is_read_and_ends(rocketlake: Typed, words: tuple[str, ...], bodies: str) -> None:
    assert rocketlake("consume", "Numbers", "--bodies", *words) == "".join(f"{body}\n" for body in bodies)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--group", "g", "--last", "3"), "own offsets"),
        (("--last", "3", "--from", "earliest"), "--last"),
        (("--from", "+3"), "behind the newest"),
        (("--from", "yesterday"), "--from"),
        (("--bodies", "-o", "json"), "all say how"),
        (("--sql92", "a > 1", "-t", "b"), "two filters"),
        (("-H", "colour"), "name=value"),
        (("-e", "-f", "%z", "--from", "earliest"), "%z"),
    ],
)
def test_options_that_make_no_sense_are_refused(rocketlake: Typed, words: tuple[str, ...], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        rocketlake("consume", "Numbers", *words)


def test_a_queue_or_topic_that_is_not_there(rocketlake: Typed) -> None:
    with pytest.raises(NotThereError, match="no queue 'broker-a/9'"):
        rocketlake("consume", "Numbers", "--queue", "broker-a/9", "-e")
    with pytest.raises(NoRoute):
        rocketlake("consume", "Nowhere", "-e")


def test_a_file_is_one_message_with_its_headers(rocketlake: Typed, tmp_path: Path) -> None:
    (tmp_path / "body").write_bytes(b"\xff\x00\n")
    words = ("-k", "k1", "-t", "paid", "-H", "colour=red", "-o", "json")
    sent = objects(rocketlake("produce", "Files", f"@{tmp_path / 'body'}", "text", *words))
    assert [(each["topic"], len(each["id"])) for each in sent] == [("Files", 32)] * 2
    found = objects(rocketlake("consume", "Files", "--last", "2", "-H", "colour=r*", "-k", "k1", "-o", "json"))
    assert [each.get("body_base64", each.get("body")) for each in found] == ["/wAK", "text"]
    assert [(each["id"], each["tag"], each["properties"]) for each in found] == [
        (each["id"], "paid", {"colour": "red"}) for each in sent
    ]
    assert rocketlake("consume", "Files", "--last", "2", "-H", "colour=blue") == ""
    with pytest.raises(UsageError, match="cannot be read"):
        rocketlake("produce", "Files", "@/no/such/file")


def test_one_command_feeds_the_other(rocketlake: Typed) -> None:
    assert rocketlake(
        "produce",
        "First",
        "-K",
        ":",
        given="a:1\nb:2:3\n",
    ).endswith("2 messages stored in First\n")
    lines = rocketlake("consume", "First", "--from", "earliest", "-e", "-o", "jsonl")
    assert sorted((each["keys"], each["body"]) for each in objects(lines)) == [("a", "1"), ("b", "2:3")]
    told = rocketlake("produce", "Second", "--json-lines", "-o", "json", given=lines + '{"body": {"n": 1}}\n')
    assert json.loads(told)["stored"] == 3
    formed = rocketlake("consume", "Second", "--from", "earliest", "-e", "-f", r"%t %k %s%%\n")
    assert sorted(formed.splitlines()) == ['Second  {"n": 1}%', "Second a 1%", "Second b 2:3%"]
    with pytest.raises(UsageError, match="is no message"):
        rocketlake("produce", "Second", "--json-lines", given='{"text": 1}\n')
    with pytest.raises(UsageError, match="in the line"):
        rocketlake("produce", "Second", "-K", ":", given="no separator\n")


def test_a_group_goes_on_where_it_stopped(rocketlake: Typed) -> None:
    rocketlake("group", "create", "readers")
    rocketlake("group", "reset", "readers", "--topic", "Numbers", "--to", "earliest", "--force", "--yes")
    read = [rocketlake("consume", "Numbers", "-g", "readers", "-c", "5", "--bodies").split() for _ in range(2)]
    assert read == [list("01234"), list("56789")]


def test_order_is_kept_by_a_text(rocketlake: Typed) -> None:
    rocketlake("topic", "create", "Ordered", "--queues", "8")
    for number in range(4):
        rocketlake("produce", "Ordered", str(number), "--order-by", "one")
    found = objects(rocketlake("consume", "Ordered", "--from", "earliest", "-e", "-o", "json"))
    assert [each["body"] for each in found] == ["0", "1", "2", "3"]
    assert len({each["queue"] for each in found}) == 1
