"""The register in etcd keeps the promises of a register while members are silent, refuse, lag or lose answers."""

from __future__ import annotations

import asyncio

import pytest

from rocketlake.base.errors import LinkError
from rocketlake.controller.etcd.cluster import EtcdError
from rocketlake.controller.registers.register import ABSENT, Conflict, OutcomeUnknown, Swapped
from tests.unit.controller.etcd.scripted import SILENT, SILENT_MADE, Says, World, play


def test_a_swap_of_the_right_revision_is_made_with_all_keys_beside_it() -> None:
    async def story(world: World) -> None:
        register = world.register
        assert await register.swap("g/a", ABSENT, b"1", {"h/1": b"why", "h/0": None}) == Swapped(2)
        assert await register.read("") == {"g/a": (b"1", 2), "h/1": (b"why", 2)}
        assert await register.swap("g/a", 2, b"2", {"h/1": None}) == Swapped(3)
        assert await register.read("g/") == {"g/a": (b"2", 3)}
        assert await register.read("h/") == {}
        assert world.keys.now == {b"/r/g/a": (b"2", 3)}

    play(story)


def test_a_swap_of_another_revision_gets_the_key_as_it_is() -> None:
    async def story(world: World) -> None:
        assert await world.register.swap("a", 7, b"1") == Conflict(None, ABSENT)
        await world.register.swap("a", ABSENT, b"1")
        assert await world.register.swap("a", ABSENT, b"2", {"b": b"2"}) == Conflict(b"1", 2)
        assert await world.register.read("") == {"a": (b"1", 2)}

    play(story)


def test_two_roots_share_no_key_also_when_one_starts_like_the_other() -> None:
    async def story(world: World) -> None:
        await world.register.swap("a", ABSENT, b"1")
        world.keys.put({b"/rest/a": b"2"})
        assert await world.register.read("") == {"a": (b"1", 2)}
        assert world.keys.now.keys() == {b"/r/a", b"/rest/a"}

    play(story, root="/r")


def test_a_silent_member_costs_one_try_and_the_next_request_goes_elsewhere_at_once() -> None:
    async def story(world: World) -> None:
        world.a.script.append(SILENT)
        assert await world.register.swap("a", ABSENT, b"1") == Swapped(2)
        assert world.clock.monotonic() == pytest.approx(0.3, abs=0.01)
        await world.register.read("")
        assert world.clock.monotonic() == pytest.approx(0.3, abs=0.01)
        assert [len(peer.asked) for peer in world.peers] == [1, 2, 0]

    play(story)


def test_a_member_that_accepts_connections_and_says_nothing_costs_one_try() -> None:
    async def story(world: World) -> None:
        world.a.answer = lambda *_: SILENT  # type: ignore[method-assign]  # a process that was stopped
        assert await world.register.read("") == {}
        assert world.clock.monotonic() == pytest.approx(0.3, abs=0.01)

    play(story)


@pytest.mark.parametrize("lost", [SILENT_MADE, Says(is_made=True), Says(status=502, body=b"<p>proxy", is_made=True)])
def test_a_swap_that_was_made_without_an_answer_is_found_by_its_value(lost: Says) -> None:
    async def story(world: World) -> None:
        world.a.script.append(lost)
        assert await world.register.swap("a", ABSENT, b"1/mine") == Swapped(2)
        assert world.keys.revision == 2

    play(story)


def test_a_swap_made_without_an_answer_and_overwritten_since_is_found_in_the_history() -> None:
    async def story(world: World) -> None:
        world.keys.put({b"/r/a": b"0"})
        world.a.script.append(SILENT_MADE)
        world.peers[1].script.append(Says())
        _, second, third = world.peers
        first_answer = third.answer

        def overwrite(*asked: object) -> Says:
            world.keys.put({b"/r/other": b"x"})
            world.keys.put({b"/r/a": b"2/theirs"})
            third.answer = first_answer  # type: ignore[method-assign]
            return first_answer(*asked)  # type: ignore[arg-type]

        await world.register._cluster.members[2].take()  # its version is asked now, not by the swap
        third.answer = overwrite  # type: ignore[method-assign]
        assert await world.register.swap("a", 2, b"1/mine") == Swapped(3)
        assert second.asked == ["/v3/kv/txn"]

    play(story)


def test_a_swap_that_lost_against_another_is_a_conflict_although_a_try_had_no_answer() -> None:
    async def story(world: World) -> None:
        world.keys.put({b"/r/a": b"0"})
        world.a.script.append(SILENT)
        world.keys.put({b"/r/a": b"1/theirs"})
        world.keys.put({b"/r/b": b"x"})
        assert await world.register.swap("a", 2, b"1/mine") == Conflict(b"1/theirs", 3)

    play(story)


def test_a_new_key_that_another_made_leaves_the_outcome_unknown() -> None:
    """Ours may come after the other's key was removed."""

    async def story(world: World) -> None:
        world.keys.put({b"/r/a": b"1/theirs"})
        world.a.script.append(SILENT)
        with pytest.raises(OutcomeUnknown):
            await world.register.swap("a", ABSENT, b"1/mine")

    play(story)


def test_without_any_answer_the_outcome_is_unknown_after_the_whole_time() -> None:
    async def story(world: World) -> None:
        for peer in world.peers:
            peer.script.extend([SILENT] * 9)
        with pytest.raises(OutcomeUnknown, match="etcd may have made the swap of a"):
            await world.register.swap("a", ABSENT, b"1")
        assert world.clock.monotonic() == pytest.approx(3, abs=0.1)

    play(story)


def test_members_that_are_slow_are_given_more_time_and_less_when_they_are_quick_again() -> None:
    async def story(world: World) -> None:
        await world.register.read("")
        for peer in world.peers:
            peer.delay_seconds = 0.5
        assert await world.register.swap("a", ABSENT, b"1") == Swapped(2)
        start = world.clock.monotonic()
        await world.register.read("")
        assert world.clock.monotonic() - start == pytest.approx(0.5, abs=0.01)
        for peer in world.peers:
            peer.delay_seconds = 0.0
        await world.register.read("")
        world.peers[world.register._cluster._first].script.append(SILENT)
        start = world.clock.monotonic()
        await world.register.read("")
        assert world.clock.monotonic() - start == pytest.approx(0.3, abs=0.01)

    play(story)


def test_a_swap_that_was_never_sent_is_not_made() -> None:
    async def story(world: World) -> None:
        for host in world.hosts.values():
            host.crash()
        with pytest.raises(LinkError, match="no member of etcd answered in time: a:2379: cannot connect") as error:
            await world.register.swap("a", ABSENT, b"1")
        assert not isinstance(error.value, OutcomeUnknown)

    play(story)


def test_a_last_try_that_has_no_time_left_does_not_hide_why_the_others_failed() -> None:
    async def story(world: World) -> None:
        for host in world.hosts.values():
            host.crash()
        reading = asyncio.ensure_future(world.register.read(""))
        await world.clock.sleep(2.8)
        world.hosts = {name: world.net.host(name) for name in world.hosts}
        for peer in world.peers:
            peer.delay_seconds = 60
        await world.listen()
        with pytest.raises(LinkError, match="no member of etcd answered in time: a:2379: cannot connect"):
            await reading

    play(story)


def test_a_refusal_for_good_is_raised_at_once_and_says_the_cure() -> None:
    async def story(world: World) -> None:
        world.a.script.append(Says(7, "etcdserver: permission denied", 403))
        with pytest.raises(EtcdError, match=r"permission denied.*Cure: grant") as error:
            await world.register.swap("a", ABSENT, b"1")
        assert not isinstance(error.value, OutcomeUnknown)
        assert world.clock.monotonic() < 0.1

    play(story)


def test_a_refusal_for_good_after_a_try_without_an_answer_leaves_the_outcome_unknown() -> None:
    async def story(world: World) -> None:
        world.a.script.append(SILENT)
        world.peers[1].script.append(Says(8, "etcdserver: mvcc: database space exceeded", 429))
        with pytest.raises(OutcomeUnknown):
            await world.register.swap("a", ABSENT, b"1")

    play(story)


@pytest.mark.parametrize(
    "body", [b"\xff\xfe", b"[]", b"{", b'{"header": 5}', b'{"succeeded": "maybe"}', b"null", b'{"kvs": [{"key": "*"}]}']
)
def test_an_answer_that_cannot_be_read_is_asked_of_another_member(body: bytes) -> None:
    async def story(world: World) -> None:
        world.a.script.append(Says(status=200, body=body))
        assert await world.register.read("") == {}
        assert world.peers[1].asked == ["/v3/kv/range"]

    play(story)


def test_a_stale_answer_is_asked_of_another_member() -> None:
    async def story(world: World) -> None:
        register = world.register
        await register.swap("a", ABSENT, b"1")
        world.a.revision = 1
        assert await register.read("") == {"a": (b"1", 2)}
        assert world.peers[1].asked == ["/v3/kv/range"]

    play(story)


def test_members_of_two_clusters_are_never_mixed() -> None:
    async def story(world: World) -> None:
        await world.register.read("")
        for peer in world.peers:
            peer.cluster_id += 1
        with pytest.raises(LinkError, match="it belongs to another cluster"):
            await world.register.read("")

    play(story)


def test_a_version_that_can_diverge_is_refused_with_its_reason() -> None:
    async def story(world: World) -> None:
        for peer in world.peers:
            peer.version = "3.5.1"
        with pytest.raises(LinkError, match=r"etcd 3.5.1 is not used.*can diverge"):
            await world.register.read("")
        assert [peer.asked for peer in world.peers] == [[], [], []]

    play(story)


def test_a_version_that_can_diverge_is_used_by_tests() -> None:
    async def story(world: World) -> None:
        world.a.version = "3.5.1"
        assert await world.register.read("") == {}
        assert world.a.asked == ["/v3/kv/range"]

    play(story, unsafe_versions=True)


def test_a_stopped_register_ends_what_is_under_way() -> None:
    async def story(world: World) -> None:
        world.a.script.append(SILENT)
        asking = world.net.spawn("swap", world.register.swap("a", ABSENT, b"1"))
        await world.clock.sleep(0.1)
        await world.register.stop()
        await world.clock.wait(asking, 1)
        assert isinstance(asking.exception(), OutcomeUnknown)

    play(story)
