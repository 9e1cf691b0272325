"""Jars of the Java peers: only those whose checksum is known."""

from __future__ import annotations

from pathlib import Path

import pytest

from interop import apache, checksums
from interop.checksums import KNOWN, WrongJar, check, name_of, written


@pytest.fixture
def jar(tmp_path: Path) -> Path:
    path = tmp_path / "repository/org/x/1.0/x-1.0.jar"
    path.parent.mkdir(parents=True)
    path.write_bytes(b"classes")
    return path


def test_a_jar_with_another_checksum_or_with_none_is_refused(jar: Path, tmp_path: Path) -> None:
    known = tmp_path / "known.txt"
    known.write_text(written([jar]))
    check([jar], known)
    jar.write_bytes(b"others")
    with pytest.raises(WrongJar, match=r"x/1\.0/x-1\.0\.jar"):
        check([jar], known)
    known.write_text("")
    with pytest.raises(WrongJar):
        check([jar], known)


def test_a_peer_with_a_wrong_jar_is_not_kept(jar: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(apache, "TARGET", tmp_path)
    monkeypatch.setattr(apache, "fetched_jars", lambda _name: [jar])
    with pytest.raises(WrongJar):
        apache.classpath("server")
    assert not (tmp_path / "server.classpath").exists()
    known = tmp_path / "known.txt"
    known.write_text(written([jar]))
    monkeypatch.setattr(checksums.check, "__defaults__", (known,))
    assert apache.classpath("server") == (tmp_path / "server.classpath").read_text() == str(jar)


def test_the_jars_of_each_peer_are_known() -> None:
    lines = KNOWN.read_text().splitlines()
    names = [line.partition("  ")[2] for line in lines]
    assert len({*names}) == len(names) > 300 and all(len(line.partition("  ")[0]) == 64 for line in lines)
    for release in ("5.3.3", "5.5.0"):
        assert f"rocketmq-broker/{release}/rocketmq-broker-{release}.jar" in names
    assert name_of(Path("/m2/org/x/1.0/x-1.0.jar")) == "x/1.0/x-1.0.jar"
