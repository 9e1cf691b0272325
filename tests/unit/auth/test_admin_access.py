from __future__ import annotations

import pytest

from rocketlake.auth.action import AccessRefused
from rocketlake.auth.admin_access import AdminAccess, check_admin_access

LOCAL = ["127.0.0.1", "127.8.9.1", "::1", "::ffff:127.0.0.1"]
REMOTE = ["10.0.0.1", "0.0.0.0", "::ffff:10.0.0.1", "2001:db8::1", "", "localhost.evil.example"]


@pytest.mark.parametrize(
    ("access", "hosts"), [(AdminAccess.LOOPBACK, LOCAL), (AdminAccess.ANY, LOCAL + REMOTE), (AdminAccess.NONE, [])]
)
def test_who_may_pass(access: AdminAccess, hosts: list[str]) -> None:
    assert [host for host in LOCAL + REMOTE if passes(access, host)] == hosts


def passes(access: AdminAccess, host: str) -> bool:
    try:
        check_admin_access(access, host, "DELETE_TOPIC")
    except AccessRefused:
        return False
    return True


@pytest.mark.parametrize(("access", "hosts"), [(AdminAccess.LOOPBACK, REMOTE), (AdminAccess.NONE, LOCAL + REMOTE)])
def test_a_refusal_names_the_request_the_setting_and_the_cure(access: AdminAccess, hosts: list[str]) -> None:
    for host in hosts:
        with pytest.raises(AccessRefused, match=r"DELETE_TOPIC.*adminAccess=.*Cure:.*adminAccess=ANY"):
            check_admin_access(access, host, "DELETE_TOPIC")
