from __future__ import annotations

import pytest

from rocketlake.auth.action import Action, Kind, Need, on_topic
from rocketlake.auth.policy import Acl, Decision, Entry, PolicyType, Resource
from rocketlake.base.errors import UsageError


def acl(*lines: str) -> Acl:
    """From lines such as `Allow Pub,Sub Topic:a* 10.0.0.0/8`; `default` in front: of the default policy."""
    entries = []
    for line in lines:
        words = line.split()
        kind = PolicyType.DEFAULT if words[0] == "default" else PolicyType.CUSTOM
        decision, actions, resource, *sources = words[1:] if kind is PolicyType.DEFAULT else words
        names = frozenset(Action(name) for name in actions.split(","))
        entries.append((kind, Entry(Resource.parse(resource), names, Decision(decision), tuple(sources))))
    return Acl(tuple(entries))


PUB = on_topic("orders-1", Action.PUB)


@pytest.mark.parametrize(
    ("lines", "is_allowed"),
    [
        ([], False),
        (["Allow Pub Topic:orders-1"], True),
        (["Allow Sub Topic:orders-1"], False),
        (["Allow All Topic:orders-1"], True),
        (["Allow Pub Topic:orders"], False),
        (["Allow Pub Topic:orders*"], True),
        (["Allow Pub Topic:*"], True),
        (["Allow Pub *"], True),
        (["Allow Pub Group:orders-1"], False),
        # the most special entry decides
        (["Deny Pub Topic:*", "Allow Pub Topic:orders-1"], True),
        (["Allow Pub Topic:orders-1", "Deny Pub Topic:*"], True),
        (["Allow Pub Topic:*", "Deny Pub Topic:orders*"], False),
        (["Deny Pub Topic:orders*", "Allow Pub Topic:orders-*"], True),
        (["Deny Pub *", "Allow Pub Topic:*"], True),
        # between two alike, Deny decides, in any order
        (["Allow Pub Topic:orders-1", "Deny All Topic:orders-1"], False),
        (["Deny All Topic:orders-1", "Allow Pub Topic:orders-1"], False),
        # an entry about other actions or other addresses says nothing
        (["Deny Sub Topic:orders-1", "Allow Pub Topic:*"], True),
        (["Deny Pub Topic:orders-1 10.9.0.0/16", "Allow Pub Topic:*"], True),
        (["Allow Pub Topic:orders-1 10.1.0.0/16"], True),
        (["Allow Pub Topic:orders-1 10.1.2.4 10.1.2.3"], True),
        # the default policy is asked last
        (["default Allow Pub Topic:orders-1"], True),
        (["default Allow Pub Topic:orders-1", "Deny Pub *"], False),
    ],
)
def test_the_entry_that_decides(lines: list[str], is_allowed: bool) -> None:
    assert acl(*lines).verdict(PUB, "10.1.2.3").allowed is is_allowed


def test_one_of_several_actions_is_enough() -> None:
    need = on_topic("orders-1", Action.SUB, Action.GET)
    assert acl("Deny Sub Topic:orders-1", "Allow Get Topic:*").verdict(need, "10.1.2.3").allowed
    assert not acl("Deny Sub,Get Topic:orders-1", "Allow Pub Topic:*").verdict(need, "10.1.2.3").allowed


def test_all_topics_are_listed_only_by_who_may_list_all() -> None:
    need = Need(Kind.TOPIC, "", (Action.LIST,))
    assert acl("Allow List Topic:*").verdict(need, "::1").allowed
    assert not acl("Allow List Topic:orders*").verdict(need, "::1").allowed


def test_a_retry_topic_belongs_to_its_group() -> None:
    need = on_topic("%RETRY%readers", Action.PUB)
    assert need == Need(Kind.GROUP, "readers", (Action.SUB,))
    assert acl("Allow Sub Group:readers").verdict(need, "10.1.2.3").allowed


def test_an_address_of_version_4_in_one_of_version_6_is_the_same() -> None:
    assert acl("Allow Pub Topic:* 10.1.0.0/16").verdict(PUB, "::ffff:10.1.2.3").allowed


@pytest.mark.parametrize("text", ["", "Topic", "Topic:", "Topic:a*b", "Queue:a", "Any:x", "Topic:\n", "topic*"])
def test_a_text_that_is_no_resource_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="is no resource"):
        Resource.parse(text)


@pytest.mark.parametrize("text", ["*", "Topic:*", "Topic:a*", "Topic:a", "Group:%RETRY%g", "Cluster:c"])
def test_a_resource_and_its_text(text: str) -> None:
    assert str(Resource.parse(text)) == text


def test_new_entries_replace_those_for_the_same_resource() -> None:
    merged = acl("Allow Pub Topic:a", "Allow Sub Topic:b").merged(acl("Deny Pub Topic:a").entries)
    assert [str(entry) for _, entry in merged.entries] == ["Deny Pub on Topic:a", "Allow Sub on Topic:b"]
    left = merged.without(PolicyType.CUSTOM, Resource.parse("Topic:a"))
    assert [str(entry) for _, entry in left.entries] == ["Allow Sub on Topic:b"]
