"""Error texts name what happened, where, and the cure."""

from __future__ import annotations

from rocketlake.base.errors import LinkError, RemoteError
from rocketlake.client.errors import NoRoute, NotRunning, SendFailed, TooManySends


def test_no_route_names_topic_name_server_and_cure() -> None:
    text = str(NoRoute("flights", ["127.0.0.1:9876"]))
    for part in ("flights", "127.0.0.1:9876", "rocketlake topic create flights", "autoCreateTopicEnable"):
        assert part in text
    for purpose in ("send", "read"):
        assert "name server that has just started" in str(NoRoute("flights", ["a:1"], purpose=purpose))


def test_send_failed_names_every_attempt() -> None:
    attempts = [("a", LinkError("refused")), ("b", LinkError("reset"))]
    text = str(SendFailed("T", attempts, timeout_ms=3000, timed_out=True))
    for part in ("a: refused", "b: reset", "3000 ms", "timeout_ms"):
        assert part in text


def test_send_failed_for_one_reason_has_its_cure() -> None:
    refused = RemoteError("no right", code=16, hint="ask for it")
    alike = SendFailed("T", [("a", refused), ("b", refused)], timeout_ms=3000, timed_out=False)
    assert (alike.refusal, alike.hint) == (refused, "ask for it")
    mixed = SendFailed("T", [("a", LinkError("reset")), ("b", refused)], timeout_ms=3000, timed_out=False)
    assert (mixed.refusal, mixed.hint) == (None, "look at the brokers named here")


def test_send_failed_before_any_attempt_says_so() -> None:
    assert "no attempt" in str(SendFailed("T", [], timeout_ms=1, timed_out=True))


def test_usage_errors_say_what_to_call() -> None:
    assert "await start()" in str(NotRunning("Producer", "g"))
    over = NotRunning("Producer", "g", is_over=True)
    assert (over.what, "start()" in over.hint, "new Producer" in over.hint) == (
        "Producer of group 'g' was stopped",
        False,
        True,
    )
    assert "pending_sends_max" in str(TooManySends(5))
