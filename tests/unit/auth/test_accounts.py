from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from rocketlake.auth.account_file import AccountFile
from rocketlake.auth.account_text import AclInfo, UserInfo, parse, user_of
from rocketlake.auth.accounts import Accounts
from rocketlake.auth.action import AccessRefused, Action, on_cluster, on_group
from rocketlake.auth.credentials import Credentials
from rocketlake.auth.policy import Acl, Decision, Entry, PolicyType, Resource
from rocketlake.auth.server_accounts import ServerAccounts, check_open
from rocketlake.auth.signature import sign
from rocketlake.auth.user import User, UserStatus, UserType
from rocketlake.base.disk.memory import MemoryFiles
from rocketlake.base.errors import StoreError, UsageError

PATH = Path("/c/accounts.json")
ROOT = User("root", "root-secret", UserType.SUPER)
FIELDS = {"topic": "T", "a": "1", "_": "2", "AccessKey": "root"}


def signed(secret: str = "root-secret", version: int = 500, **more: str) -> dict[str, str]:
    fields = FIELDS | more
    return fields | {"Signature": sign(secret, fields, (b"bo", b"dy"), version=version)}


def test_the_signature_is_that_of_java() -> None:
    """Values in the order of their names, upper case before `_` before lower case, then the body: by openssl."""
    assert sign("root-secret", FIELDS, (b"bo", b"dy")) == "k97Og/w3aqojw+UFku6VCy5HfK8="


def test_the_signer_of_a_request() -> None:
    accounts = Accounts({"root": ROOT})
    assert accounts.signer(signed(), b"body", version=500) is ROOT
    for fields, body in (
        (FIELDS, b"body"),
        ({}, b"body"),
        (signed("wrong"), b"body"),
        (signed(), b"Body"),
        (signed() | {"a": "2"}, b"body"),
        (signed() | {"AccessKey": "toor"}, b"body"),
        (signed() | {"Signature": "ä"}, b"body"),
    ):
        with pytest.raises(AccessRefused) as refused:
            accounts.signer(fields, body, version=500)
        assert "root-secret" not in str(refused.value)
    accounts.put_user(User("other", "other-secret", UserType.SUPER))
    accounts.put_user(User("root", "root-secret", UserType.SUPER, UserStatus.DISABLE))
    with pytest.raises(AccessRefused, match="disabled"):
        accounts.signer(signed(), b"body", version=500)


def test_clients_up_to_4_9_3_sign_without_the_key_of_a_query() -> None:
    accounts = Accounts({"root": ROOT})
    old = signed(version=399, _UNIQUE_KEY_QUERY="true")
    assert accounts.signer(old, b"body", version=399) is ROOT
    with pytest.raises(AccessRefused):
        accounts.signer(old, b"body", version=400)


@pytest.mark.parametrize(
    ("name", "password"),
    [("", "secret-1"), ("a b", "secret-1"), ("a/b", "secret-1"), ("a", "short"), ("a", " blank-1")],
)
def test_a_name_or_a_secret_that_cannot_be_used_is_refused(name: str, password: str) -> None:
    with pytest.raises(UsageError):
        Accounts().put_user(User(name, password))


@pytest.mark.parametrize(
    "less", [User("root", "root-secret"), User("root", "root-secret", UserType.SUPER, UserStatus.DISABLE)]
)
def test_the_last_super_user_stays_one(less: User) -> None:
    accounts = Accounts({"root": ROOT})
    with pytest.raises(UsageError, match="last super user"):
        accounts.put_user(less)
    assert accounts.users == {"root": ROOT}
    accounts.put_user(User("other", "other-secret", UserType.SUPER))
    accounts.put_user(less)
    assert accounts.users["root"] is less


def test_the_last_super_user_stays() -> None:
    accounts = Accounts({"root": ROOT})
    with pytest.raises(UsageError, match="last super user"):
        accounts.drop_user("root")
    accounts.put_user(User("other", "other-secret", UserType.SUPER))
    accounts.drop_user("root")
    assert list(accounts.users) == ["other"]


def test_what_an_update_leaves_out_stays() -> None:
    changed = user_of(parse(UserInfo, b'{"userStatus":"disable","unknown":1}'), "root", ROOT)
    assert changed == User("root", "root-secret", UserType.SUPER, UserStatus.DISABLE)


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b'{"policies":{}}', b"\xff"])
def test_a_body_that_is_none_is_refused_without_its_text(body: bytes) -> None:
    with pytest.raises(UsageError, match="the body is no AclInfo"):
        parse(AclInfo, body)


# -- the file ----------------------------------------------------------------------------------------------------------


def test_users_and_policies_come_back_from_the_file() -> None:
    files = MemoryFiles()
    file = AccountFile(PATH, files)
    file.load((ROOT,))
    file.accounts.put_user(User("alice", "alice-secret"))
    file.save()
    again = AccountFile(PATH, files)
    again.load((User("root", "another-secret", UserType.SUPER),))
    assert again.accounts.users == {"root": ROOT, "alice": User("alice", "alice-secret")}, "a known user stays"


def test_a_change_by_another_process_is_seen_and_a_broken_file_changes_nothing() -> None:
    files = MemoryFiles()
    ours, other = AccountFile(PATH, files), AccountFile(PATH, files)
    ours.load((ROOT,))
    other.load()
    assert not ours.refresh()
    other.accounts.put_user(User("alice", "alice-secret"))
    other.save()
    assert ours.refresh() and "alice" in ours.accounts.users
    files.write_bytes(PATH, b'{"users":[{"username":"x","userType":"King"}],"acls":[]}')
    assert not ours.refresh() and "alice" in ours.accounts.users
    with pytest.raises(StoreError, match="accounts cannot be read"):
        AccountFile(PATH, files).load()


def test_a_server_without_a_super_user_makes_one() -> None:
    files = MemoryFiles()
    file = AccountFile(PATH, files)
    file.load()
    password = files.read_bytes(PATH.with_name("admin_password")).decode().strip()
    assert file.accounts.users == {"admin": User("admin", password, UserType.SUPER)}
    assert len(password) == 32 and password not in repr(file.accounts.users)


def test_credentials_are_read_from_where_people_keep_them(tmp_path: Path) -> None:
    tools = tmp_path / "tools.yml"
    tools.write_text("# of mqadmin\naccessKey: root\nsecretKey: 'a:b'\n")
    assert Credentials.from_file(tools) == Credentials("root", "a:b")
    assert Credentials.from_environment({}) is None
    with pytest.raises(UsageError, match="ROCKETMQ_SECRET_KEY is not set"):
        Credentials.from_environment({"ROCKETMQ_ACCESS_KEY": "root"})
    tools.write_text("accessKey: root\n")
    with pytest.raises(UsageError, match="lacks accessKey or secretKey"):
        Credentials.from_file(tools)
    with pytest.raises(UsageError, match="innerClientAuthenticationCredentials cannot be read") as refused:
        Credentials.parse('{"accessKey":"secret-text"}', "innerClientAuthenticationCredentials")
    assert "secret-text" not in str(refused.value)


@dataclass(frozen=True)
class Settings:
    listen_host: str = "0.0.0.0"
    authentication_enabled: bool = False
    authorization_enabled: bool = False
    certificate_users: bool = False
    allow_unauthenticated: bool = False
    accounts_path: str = ""
    first_user: str = ""
    inner_credentials: str = ""


def test_a_server_without_users_is_opened_to_a_network_on_purpose_only() -> None:
    with pytest.raises(UsageError, match=r"bindAddress=0\.0\.0\.0 opens"):
        check_open(Settings())
    assert "may send and read" in check_open(Settings(allow_unauthenticated=True))
    assert check_open(Settings(authentication_enabled=True)) == ""
    assert check_open(Settings(listen_host="127.0.0.1")) == ""


def test_policies_without_users_would_believe_any_name() -> None:
    with pytest.raises(UsageError, match="authorizationEnabled without authenticationEnabled"):
        ServerAccounts(Settings(authorization_enabled=True), PATH, MemoryFiles())


def test_a_server_signs_as_it_is_told_or_as_its_first_super_user() -> None:
    accounts = ServerAccounts(Settings(authentication_enabled=True), PATH, MemoryFiles())
    accounts.load()
    own = accounts.credentials()
    assert own is not None and own.access_key == "admin"
    inner = '{"accessKey":"inner","secretKey":"inner-secret"}'
    told = ServerAccounts(Settings(inner_credentials=inner), PATH, MemoryFiles())
    assert (told.credentials(), told.file) == (Credentials("inner", "inner-secret"), None)
    assert ServerAccounts(Settings(), PATH, MemoryFiles()).credentials() is None


def test_what_a_user_may_do_and_why_not() -> None:
    accounts = Accounts({"root": ROOT, "carol": User("carol", "carol-secret")})
    entry = Entry(Resource.parse("Group:g"), frozenset({Action.SUB}), Decision.ALLOW)
    accounts.put_acl("carol", Acl(((PolicyType.CUSTOM, entry),)))
    carol = accounts.users["carol"]
    accounts.check(carol, on_group("%RETRY%g", Action.SUB), "10.0.0.1", "PULL_MESSAGE")
    accounts.check(ROOT, on_cluster(Action.UPDATE), "10.0.0.1", "UPDATE_BROKER_CONFIG")
    with pytest.raises(AccessRefused, match=r"user carol from 10\.0\.0\.1 lacks Update on Cluster:\*"):
        accounts.check(carol, on_cluster(Action.UPDATE), "10.0.0.1", "UPDATE_BROKER_CONFIG")
    accounts.put_acl("carol", Acl())
    assert accounts.acls == {}
    with pytest.raises(UsageError, match="no user nobody"):
        accounts.put_acl("nobody", Acl())
    many = Acl(
        tuple(
            (PolicyType.CUSTOM, Entry(Resource.parse(f"Topic:t{n}"), entry.actions, Decision.ALLOW))
            for n in range(1001)
        )
    )
    with pytest.raises(UsageError, match="at most 1000 are taken"):
        accounts.put_acl("carol", many)


def test_there_is_a_limit_of_users(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rocketlake.auth.accounts._USERS_MAX", 1)
    with pytest.raises(UsageError, match="there are 1 users already"):
        Accounts({"root": ROOT}).put_user(User("carol", "carol-secret"))


def test_an_address_that_is_none_fits_no_source() -> None:
    entry = Entry(Resource.parse("Group:g"), frozenset({Action.SUB}), Decision.ALLOW, ("10.0.0.0/8",))
    assert not Acl(((PolicyType.CUSTOM, entry),)).verdict(on_group("g", Action.SUB), "unconnected").allowed


def test_the_first_user_of_the_settings_is_made_and_a_missing_file_is_named(tmp_path: Path) -> None:
    settings = Settings(authentication_enabled=True, first_user='{"username":"first","password":"first-secret"}')
    accounts = ServerAccounts(settings, PATH, MemoryFiles())
    accounts.load()
    assert accounts.file is not None and accounts.file.accounts.users["first"].is_super
    ServerAccounts(Settings(), PATH, MemoryFiles()).load()
    with pytest.raises(UsageError, match="credentials cannot be read"):
        Credentials.from_file(tmp_path / "nobody.yml")


def test_a_certificate_names_an_enabled_user_or_lets_nobody_in() -> None:
    known = Accounts({"alice": User("alice", "alice-secret"), "eve": User("eve", "s3cret!", status=UserStatus.DISABLE)})
    assert known.certified("alice").name == "alice"
    with pytest.raises(AccessRefused, match="names 'mallory', and there is no such user"):
        known.certified("mallory")
    with pytest.raises(AccessRefused, match="user eve is disabled"):
        known.certified("eve")


def test_certificates_without_users_would_let_in_all_of_an_authority() -> None:
    with pytest.raises(UsageError, match="certificateUsers without authenticationEnabled"):
        ServerAccounts(Settings(certificate_users=True), PATH, MemoryFiles())
