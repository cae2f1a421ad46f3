"""A Java that is missing, too old or broken, and a JVM that dies: each is one error with a fix."""

from __future__ import annotations

import gc
import re
from pathlib import Path

import pytest

from waterclock.engine.spark import java
from waterclock.engine.spark.jvm import JvmLog, end_of, start_jvm
from waterclock.engine.spark.session import Sessions
from waterclock.errors import WaterclockError

ROOT = Path(__file__).parents[4]


@pytest.fixture(autouse=True)
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a machine without Java in the usual places and on PATH."""
    for name in ("JAVA_HOME", "JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS", "SPARK_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(java, "_USUAL_PLACES", (f"{tmp_path}/jvm/*",))
    (tmp_path / "path").mkdir()
    monkeypatch.setenv("PATH", str(tmp_path / "path"))
    return tmp_path


def put_java(home: Path, body: str, *, release: str | None = None) -> Path:
    (home / "bin").mkdir(parents=True)
    (home / "bin" / "java").write_text(f"#!/bin/sh\n{body}\n", encoding="utf-8")
    (home / "bin" / "java").chmod(0o755)
    if release is not None:
        (home / "release").write_text(f'IMPLEMENTOR="x"\nJAVA_VERSION="{release}"\n', encoding="utf-8")
    return home


def put_command(machine: Path, name: str) -> None:
    (machine / "path" / name).write_text("#!/bin/sh\n", encoding="utf-8")
    (machine / "path" / name).chmod(0o755)


def refusal() -> WaterclockError:
    with pytest.raises(WaterclockError) as caught:
        java.require_java()
    return caught.value


def test_a_missing_java_is_reported_with_the_searched_places_and_the_install_command(machine: Path) -> None:
    put_command(machine, "apt-get")
    error = refusal()
    assert (error.code, error.what) == ("E701", "java is missing")
    assert error.where == f"PATH={machine / 'path'}, and JAVA_HOME is not set"
    assert "apt-get install -y --no-install-recommends default-jre-headless (as root)" in (error.fix or "")


def test_a_missing_java_on_an_unknown_system_is_reported_with_a_general_fix() -> None:
    assert refusal().fix == "install Java 17 or newer, and put it on PATH or name its folder in JAVA_HOME"


def test_a_wrong_java_home_names_the_java_that_is_there(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(machine / "nothing"))
    put_java(machine / "jvm" / "java-11", "", release="11.0.2")
    put_java(machine / "jvm" / "java-21", "", release="21.0.1")
    put_java(machine / "jvm" / "java-99", "", release="99.0.1")
    error = refusal()
    assert (error.code, error.where) == ("E701", f"JAVA_HOME={machine / 'nothing'}")
    assert error.why == "Spark runs on Java 17 or newer; JAVA_HOME is set, but has no bin/java"
    assert error.fix == f"export JAVA_HOME={machine / 'jvm' / 'java-21'}, which is Java 21"


@pytest.mark.parametrize("said", ['java version "1.8.0_412"', 'openjdk version "11.0.2" 2019-01-15'])
def test_an_old_java_is_refused(machine: Path, monkeypatch: pytest.MonkeyPatch, said: str) -> None:
    home = put_java(machine / "old", f"echo 'Picked up JAVA_TOOL_OPTIONS: -Xmx1g' >&2; echo '{said}' >&2")
    monkeypatch.setenv("JAVA_HOME", str(home))
    error = refusal()
    assert error.code == "E703"
    assert re.fullmatch(r"Java (8|11) is too old", error.what)
    assert error.where == str(home / "bin" / "java")


def test_a_java_that_does_not_start_is_quoted(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = put_java(machine / "broken", "echo 'Unable to locate a Java Runtime.' >&2; exit 0")
    monkeypatch.setenv("JAVA_HOME", str(home))
    error = refusal()
    assert (error.code, error.what) == ("E703", "java does not start")
    assert error.why == "its output: Unable to locate a Java Runtime."


def test_a_java_whose_release_file_names_its_version_is_not_run(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = put_java(machine / "new", f"touch {machine}/ran", release="17.0.15")
    monkeypatch.setenv("JAVA_HOME", str(home))
    assert java.require_java() == str(home / "bin" / "java")
    assert not (machine / "ran").exists()


def test_bin_ensure_installs_the_same_packages() -> None:
    script = (ROOT / "bin" / "_ensure").read_text(encoding="utf-8")
    packages = dict(re.findall(r"^    ([a-z-]+):java\) printf (\S+) ;;$", script, re.MULTILINE))
    assert packages
    assert {name: order.split()[-1] for name, order in java.INSTALLS.items()} == packages


def not_started(log: Path) -> dict[str, str]:
    from pyspark import SparkConf

    with pytest.raises(WaterclockError) as caught:
        start_jvm(SparkConf(loadDefaults=False), JvmLog.at(log))
    return caught.value.to_dict()


@pytest.mark.filterwarnings("ignore::ResourceWarning")  # PySpark leaves the pipe to its JVM open
def test_a_jvm_that_dies_is_one_error_with_its_last_words(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    dies = "echo 'WARNING: noise' >&2; echo 'Too small maximum heap' >&2; exit 1"
    home = put_java(machine / "dying", dies, release="17")
    monkeypatch.setenv("JAVA_HOME", str(home))
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", "-Xmx1")
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    log = machine / "jvm.log"
    log.write_text("words of another JVM\n", encoding="utf-8")
    error = not_started(log)
    gc.collect()
    assert (error["code"], error["what"]) == ("E704", "Spark's JVM does not start")
    assert error["where"] == f"{home}/bin/java, JAVA_TOOL_OPTIONS=-Xmx1"
    assert "Too small maximum heap" in error["why"]
    assert "another JVM" not in error["why"]
    assert "JAVA_TOOL_OPTIONS" in error["fix"]


def test_a_spark_that_did_not_start_is_not_tried_again_until_it_is_revived(
    machine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from waterclock.engine.spark import session

    tried: list[int] = []

    def opened(*_: object, **__: object) -> object:
        tried.append(1)
        raise WaterclockError("E701", "java is missing")

    monkeypatch.setattr(session, "_start_session", opened)
    monkeypatch.setattr(session, "_live_session", lambda: None)
    sessions = Sessions(work_folder=machine)
    for _ in range(2):
        with pytest.raises(WaterclockError, match="java is missing"):
            sessions.root()
    assert len(tried) == 1
    sessions.revive()
    with pytest.raises(WaterclockError, match="java is missing"):
        sessions.root()
    assert len(tried) == 2


class Ended:
    """A process that has ended."""

    def __init__(self, code: int | None) -> None:
        self.code = code

    def poll(self) -> int | None:
        return self.code


@pytest.mark.parametrize(
    ("code", "said"),
    [
        (-9, "it was killed by SIGKILL (by the kernel if memory ran out); its last output: # out of memory"),
        (134, "it exited with code 134; its last output: # out of memory"),
        (None, "its process no longer exists; its last output: # out of memory"),
    ],
)
def test_the_end_of_a_jvm_is_reported_with_the_last_line_of_its_log(machine: Path, code: int | None, said: str) -> None:
    (machine / "jvm.log").write_text("WARNING: noise\n# out of memory\n\tat some.Frame\n", encoding="utf-8")
    assert end_of(Ended(code), JvmLog(machine / "jvm.log", 0)) == said
    assert end_of(None, None) == "its process no longer exists"
