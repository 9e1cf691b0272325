"""`rocketlake schedule`, as a user types it."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime, timedelta

import pytest

from rocketlake import Message, UsageError
from rocketlake.client.sync import Producer
from rocketlake.testing.cluster import EmbeddedCluster
from tests.integration.conftest import Typed


def listed(rocketlake: Typed, *options: str) -> list[dict[str, str]]:
    found: list[dict[str, str]] = json.loads(rocketlake("schedule", "list", "-o", "json", *options))
    return found


def test_what_waits_is_listed_and_taken_back(cluster: EmbeddedCluster, rocketlake: Typed) -> None:
    for number, delay in enumerate(("2h", "10m", "30s", "70h", "10m")):
        rocketlake("produce", "Tea" if number < 4 else "Cake", f"b{number}", "--delay", delay, "-k", f"k{number}")
    rocketlake("produce", "Tea", "level", "--delay-level", "18")
    while len(everything := listed(rocketlake)) < 5:  # the timer reads what was sent a moment later
        pass
    assert [(each["topic"], each["keys"]) for each in everything if each["topic"] == "Tea"] == [
        ("Tea", "k2"), ("Tea", "k1"), ("Tea", "k0"), ("Tea", "k3"),
    ]  # fmt: skip
    dues = [datetime.fromisoformat(each["due"]) for each in everything]
    assert dues == sorted(dues)
    assert [each["keys"] for each in listed(rocketlake, "--topic", "Cake")] == ["k4"]
    assert [each["keys"] for each in listed(rocketlake, "--limit", "2")] == ["k2", everything[1]["keys"]]
    middle = everything[3]["due"]
    assert [each["keys"] for each in listed(rocketlake, "--from", middle)] == ["k0", "k3"]
    assert len(listed(rocketlake, "--to", middle)) == 3

    (handle,) = [each["handle"] for each in everything if each["keys"] == "k1"]
    assert "will not be delivered" in rocketlake("schedule", "cancel", "--yes", handle)
    rocketlake("schedule", "cancel", "--yes", handle)
    assert [each["keys"] for each in listed(rocketlake, "--topic", "Tea")] == ["k2", "k0", "k3"]
    summary = {each["topic"]: each for each in listed(rocketlake, "--summary")}
    (tea, cake) = summary["Tea"], summary["Cake"]
    assert [tea[name] for name in ("waiting", "within_1m", "within_1h", "within_1d", "later")] == [3, 1, 0, 1, 1]
    assert (cake["waiting"], cake["within_1h"]) == (1, 1)
    for topic, counted in summary.items():
        assert counted["first_due"] == listed(rocketlake, "--topic", topic)[0]["due"]
    later = listed(rocketlake, "--topic", "Tea")[1]["due"]
    assert listed(rocketlake, "--summary", "--topic", "Tea", "--from", later)[0]["waiting"] == 2
    assert listed(rocketlake, "--summary", "--topic", "Tea", "--to", later)[0]["waiting"] == 1


def test_more_than_one_answer_holds(cluster: EmbeddedCluster, rocketlake: Typed) -> None:
    """The second question goes on in the middle of a tick; a recall of that tick counts there, too."""
    with Producer("many", namesrv=cluster.namesrv) as producer:
        at = datetime.now(UTC) + timedelta(hours=5)
        sent = [producer.send(Message("Many", b"x", keys=f"{n}", deliver_at=at)) for n in range(1300)]
        producer.recall("Many", sent[0].recall_handle)
    keys = [each["keys"] for each in listed(rocketlake, "--topic", "Many", "--limit", "5000")]
    assert sorted(map(int, keys)) == list(range(1, 1300))


def test_no_handle_is_refused(cluster: EmbeddedCluster, rocketlake: Typed) -> None:
    with pytest.raises(UsageError, match="recall handle is invalid"):
        rocketlake("schedule", "cancel", "--yes", "nonsense")


def test_a_produce_says_how_to_take_the_message_back(cluster: EmbeddedCluster, rocketlake: Typed) -> None:
    said = rocketlake("produce", "Late", "tea", "--delay", "1h")
    assert "until its time" in said
    (handle,) = re.findall(r"`rocketlake schedule cancel (\S+)`", said)
    rocketlake("schedule", "cancel", "--yes", handle)
    assert listed(rocketlake, "--topic", "Late") == []
    known = json.loads(rocketlake("produce", "Late", "tea", "--delay", "1h", "-o", "jsonl"))
    assert [each["handle"] for each in listed(rocketlake, "--topic", "Late")] == [known["handle"]]
    assert "handle" not in json.loads(rocketlake("produce", "Late", "tea", "-o", "jsonl"))
