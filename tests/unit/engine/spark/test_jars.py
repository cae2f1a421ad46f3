from __future__ import annotations

import hashlib
import os
import zipfile
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from waterclock.engine.spark import jars
from waterclock.errors import WaterclockError

NAMES = ["delta-spark_4.2_2.13-4.4.0.jar", "delta-storage-4.4.0.jar"]


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("WATERCLOCK_JARS", "WATERCLOCK_IVY_SETTINGS", "https_proxy", "HTTPS_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "waterclock" / "jars"


@pytest.fixture
def java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a `java` that is a shell script, which a test writes."""
    home = tmp_path / "java"
    (home / "bin").mkdir(parents=True)
    command = home / "bin" / "java"
    monkeypatch.setenv("JAVA_HOME", str(home))
    return command


def write_java(command: Path, body: str) -> None:
    command.write_text(f"#!/bin/sh\n{body}\n", encoding="ascii")
    command.chmod(0o755)


def retrieving(content: str) -> str:
    """Return a script that, like Ivy, stores every jar at the path given by -retrieve."""
    writes = "\n".join(f'printf %s {content} >"$goal/{name}"' for name in NAMES)
    return f'while [ "$1" != -retrieve ]; do shift; done\ngoal=$(dirname "$2"); mkdir -p "$goal"\n{writes}'


def test_a_user_without_a_home_folder_is_refused_with_the_user_id(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("WATERCLOCK_JARS", "XDG_CACHE_HOME", "HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("os.getuid", lambda: 4_000_000)  # not in /etc/passwd
    with pytest.raises(WaterclockError) as refused:
        jars.delta_jars()
    assert (refused.value.code, refused.value.what) == ("E702", "the folder of Waterclock's cache is unknown")
    assert "4000000" in (refused.value.why or "")


@pytest.mark.parametrize(("coordinates", "checksums"), [("ivy.xml", "jars.sha256"), ("ivy-s3.xml", "jars-s3.sha256")])
def test_checksums_and_coordinates_name_the_same_jars(coordinates: str, checksums: str) -> None:
    here = Path(jars.__file__).parent
    dependencies = list(ET.parse(here / coordinates).getroot().iter("dependency"))
    listed = [line.split()[1] for line in (here / checksums).read_text(encoding="ascii").splitlines()]
    assert [f"{one.get('name')}-{one.get('rev')}.jar" for one in dependencies] == listed
    assert {one.get("transitive") for one in dependencies} == {"false"}


def test_the_names_in_this_file_are_those_of_delta() -> None:
    listed = (Path(jars.__file__).parent / "jars.sha256").read_text(encoding="ascii").splitlines()
    assert [line.split()[1] for line in listed] == NAMES


@pytest.mark.parametrize("scheme", ["s3", "s3a"])
def test_missing_s3_jars_are_reported_by_name(
    cache: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, scheme: str
) -> None:
    monkeypatch.setenv("WATERCLOCK_JARS", str(tmp_path))
    with pytest.raises(WaterclockError, match=r"WATERCLOCK_JARS has no readable hadoop-aws-3\.5\.0\.jar, ") as caught:
        jars.object_storage_jars(scheme)
    assert caught.value.code == "E702"
    assert not cache.exists()


def test_the_log_store_s_jar_holds_the_source_that_it_was_made_from() -> None:
    """If this fails, the source has changed: run bin/_log_store."""
    folder = Path(jars.__file__).parent / "log_store"
    with zipfile.ZipFile(folder / "log-store.jar") as jar:
        assert jar.read("ConditionalLogStore.java") == (folder / "ConditionalLogStore.java").read_bytes()


def test_other_storage_needs_no_jars(cache: Path) -> None:
    assert jars.object_storage_jars("file") == ()
    assert not cache.exists()


def test_jars_in_the_cache_are_taken_without_java(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache.mkdir(parents=True)
    for name in NAMES:
        (cache / name).touch()
    monkeypatch.setenv("JAVA_HOME", str(cache))
    assert jars.delta_jars() == tuple(cache / name for name in NAMES)


@pytest.mark.parametrize("is_changed", [False, True])
def test_jars_that_another_user_could_change_are_checked_and_made_private(
    cache: Path, java: Path, monkeypatch: pytest.MonkeyPatch, is_changed: bool
) -> None:
    digest = hashlib.sha256(b"jar").hexdigest()
    monkeypatch.setattr(jars, "_checksums", lambda _: dict.fromkeys(NAMES, digest))
    write_java(java, retrieving("jar"))
    cache.mkdir(parents=True)
    for name in NAMES:
        (cache / name).write_bytes(b"worm" if is_changed else b"jar")
        (cache / name).chmod(0o666)
    cache.chmod(0o777)
    assert jars.delta_jars() == tuple(cache / name for name in NAMES)
    assert {(cache / name).read_bytes() for name in NAMES} == {b"jar"}
    assert {place.stat().st_mode & 0o022 for place in (cache, *cache.iterdir())} == {0}


def test_no_other_user_can_write_to_a_fetched_jar_whatever_the_umask(
    cache: Path, java: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    digest = hashlib.sha256(b"jar").hexdigest()
    monkeypatch.setattr(jars, "_checksums", lambda _: dict.fromkeys(NAMES, digest))
    write_java(java, retrieving("jar"))
    before = os.umask(0)
    try:
        jars.delta_jars()
    finally:
        os.umask(before)
    assert {place.stat().st_mode & 0o022 for place in (cache.parent, cache, *cache.iterdir())} == {0}


def test_a_configured_directory_is_taken_as_it_is(cache: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("WATERCLOCK_JARS", str(tmp_path))
    (tmp_path / NAMES[0]).touch()
    with pytest.raises(WaterclockError) as caught:
        jars.delta_jars()
    assert caught.value.code == "E702"
    assert caught.value.what == f"WATERCLOCK_JARS has no readable {NAMES[1]}"
    assert caught.value.where == str(tmp_path)
    assert not cache.exists()
    (tmp_path / NAMES[1]).touch()
    assert jars.delta_jars() == tuple(tmp_path / name for name in NAMES)


def test_fetched_jars_appear_whole_and_nothing_else_stays(
    cache: Path, java: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    digest = hashlib.sha256(b"jar").hexdigest()
    monkeypatch.setattr(jars, "_checksums", lambda _: dict.fromkeys(NAMES, digest))
    write_java(java, retrieving("jar"))
    assert jars.delta_jars() == tuple(cache / name for name in NAMES)
    assert sorted(path.name for path in cache.iterdir()) == NAMES
    java.unlink()
    assert jars.delta_jars() == tuple(cache / name for name in NAMES)


def test_a_jar_with_another_content_is_refused_and_not_kept(cache: Path, java: Path) -> None:
    write_java(java, retrieving("evil"))
    with pytest.raises(WaterclockError, match="has an unexpected checksum") as caught:
        jars.delta_jars()
    assert caught.value.code == "E702"
    assert not caught.value.transient
    assert list(cache.iterdir()) == []


def test_an_unreachable_registry_is_reported_with_the_message_of_ivy(cache: Path, java: Path) -> None:
    write_java(java, "echo ':: :: Host maven.example not found. ::'; exit 1")
    with pytest.raises(WaterclockError) as caught:
        jars.delta_jars()
    error = caught.value
    assert (error.code, error.what) == ("E702", f"the jar {NAMES[0]} cannot be fetched")
    assert error.why == "Host maven.example not found."
    assert error.transient
    assert "WATERCLOCK_JARS" in (error.fix or "")
    assert list(cache.iterdir()) == []


def test_a_cache_that_cannot_be_written_is_reported(cache: Path, java: Path) -> None:
    write_java(java, "exit 0")
    cache.parent.write_text("a file where the folder should be", encoding="ascii")
    with pytest.raises(WaterclockError, match="the jars cannot be written") as caught:
        jars.delta_jars()
    assert caught.value.where == str(cache)


def test_a_missing_java_is_reported(cache: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(WaterclockError) as caught:
        jars.delta_jars()
    assert (caught.value.code, caught.value.what) == ("E701", "java is missing")
    assert not cache.exists()


@pytest.mark.parametrize("address", ["http://proxy.example:3128", "proxy.example:3128"])
def test_java_is_given_the_proxy_of_the_environment(
    cache: Path, java: Path, monkeypatch: pytest.MonkeyPatch, address: str
) -> None:
    assert cache.parent.parent.is_dir()
    monkeypatch.setenv("HTTPS_PROXY", address)
    write_java(java, 'echo "exception: $1 $2"')
    with pytest.raises(WaterclockError) as caught:
        jars.delta_jars()
    assert caught.value.why == "exception: -Dhttps.proxyHost=proxy.example -Dhttps.proxyPort=3128"
