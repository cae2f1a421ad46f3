from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

import pytest

from waterclock.connectors.registry import capabilities
from waterclock.dpl.project import Project, load_project
from waterclock.engine import run_opening
from waterclock.engine.spark.settings import SparkSettings, settings_of
from waterclock.errors import ProjectErrors, WaterclockError

TOML = '[project]\nname = "shop"\n[env.prod]\n'
FLOW = "CREATE CONNECTION shop TYPE sqlite OPTIONS (path 'shop.sqlite'); COLLECT a.b (id BIGINT) FROM shop.b EVERY DAY;"


def project(root: Path, said: str) -> Project:
    (root / "flows").mkdir()
    (root / "flows" / "flow.dpl").write_text(FLOW)
    (root / "waterclock.toml").write_text(TOML + said)
    return load_project(root, capabilities=capabilities())


def test_without_a_word_spark_is_this_machines(tmp_path: Path) -> None:
    found = settings_of(project(tmp_path, ""))
    assert (found.master, found.memory, found.is_local, dict(found.confs)) == ("local[*]", "2g", True, {})


def test_an_environment_sets_the_spark_master_and_its_configuration(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WATERCLOCK_SECRET_LAKE_KEY", "s3cret")
    found = settings_of(
        project(
            tmp_path,
            """[env.prod.spark]
master = "spark://spark.internal:7077"
memory = "8g"
python = "/opt/waterclock/bin/python"
packages = ["org.example:thing:1.0"]
[env.prod.spark.confs]
"spark.executor.memory" = "4g"
"spark.cores.max" = 16
"spark.eventLog.enabled" = true
"spark.hadoop.fs.s3a.secret.key" = { secret = "lake_key" }
""",
        )
    )
    assert (found.master, found.memory, found.python, found.packages, found.is_local) == (
        "spark://spark.internal:7077", "8g", "/opt/waterclock/bin/python", ("org.example:thing:1.0",), False,
    )  # fmt: skip
    assert dict(found.confs) == {
        "spark.executor.memory": "4g",
        "spark.cores.max": "16",
        "spark.eventLog.enabled": "true",
        "spark.hadoop.fs.s3a.secret.key": "s3cret",
    }


def test_confs_that_affect_results_cannot_be_set_and_all_of_them_are_reported(tmp_path: Path) -> None:
    said = '[env.prod.spark]\nconfs = { "spark.sql.session.timeZone" = "Asia/Tokyo", "spark.master" = "yarn" }\n'
    with pytest.raises(WaterclockError) as refused:
        settings_of(project(tmp_path, said))
    assert refused.value.code == "E713"
    assert refused.value.what == "spark.master, spark.sql.session.timeZone cannot be set"
    assert refused.value.fix == "set master for spark.master in [env.prod.spark]; leave the others out"


@pytest.mark.parametrize(
    "conf",
    [
        '"spark.sql.timestampType" = "TIMESTAMP_NTZ"',
        '"spark.sql.files.ignoreMissingFiles" = true',
        '"spark.sql.files.ignoreCorruptFiles" = true',
        '"spark.sql.decimalOperations.allowPrecisionLoss" = false',
        '"spark.sql.mapKeyDedupPolicy" = "LAST_WIN"',
    ],
)
def test_settings_under_which_rows_would_be_missing_or_differ_cannot_be_set(tmp_path: Path, conf: str) -> None:
    with pytest.raises(WaterclockError, match=r"E713 .* cannot be set"):
        settings_of(project(tmp_path, f"[env.prod.spark]\nconfs = {{ {conf} }}\n"))


def test_the_number_of_shuffle_partitions_may_be_set(tmp_path: Path) -> None:
    said = '[env.prod.spark]\nconfs = { "spark.sql.shuffle.partitions" = 200 }\n'
    assert settings_of(project(tmp_path, said)).confs == {"spark.sql.shuffle.partitions": "200"}


def test_an_unknown_key_is_reported_with_the_nearest_known_key(tmp_path: Path) -> None:
    with pytest.raises(ProjectErrors, match="unknown key mastr") as refused:
        project(tmp_path, '[env.prod.spark]\nmastr = "yarn"\n')
    assert "master" in str(refused.value.errors[0].fix)


def test_secrets_and_stores_stay_off_the_command_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WATERCLOCK_SECRET_LAKE_KEY", "s3cret")
    said = """[env.prod.spark.confs]
"spark.hadoop.fs.abfs.account.key" = { secret = "lake/key" }
"spark.sql.shuffle.partitions" = "7"
"""
    found = settings_of(project(tmp_path, said))
    assert found.confs["spark.hadoop.fs.abfs.account.key"] == "s3cret"
    assert found.secrets == {"spark.hadoop.fs.abfs.account.key"}


def test_a_secret_that_would_be_on_the_command_line_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WATERCLOCK_SECRET_LAKE_KEY", "s3cret")
    said = """[env.prod.spark.confs]
"spark.driver.extraJavaOptions" = { secret = "lake/key" }
"""
    with pytest.raises(WaterclockError) as refused:
        settings_of(project(tmp_path, said))
    assert (refused.value.code, "s3cret" in refused.value.render()) == ("E713", False)


BUCKETS = """
CREATE CONNECTION drop TYPE files; CREATE CONNECTION out TYPE files; CREATE CONNECTION unused TYPE files;
COLLECT raw.orders PARTITIONED (id BIGINT) FROM drop.orders EVERY DAY BY ARRIVAL TIME;
PUBLISH raw.orders TO out.orders;
"""


@pytest.mark.parametrize(
    ("tables", "needed"),
    [
        (None, {"drop", "out"}),
        (["raw.orders"], {"drop"}),
        (["out.orders"], {"out"}),
        ([], set()),
    ],
)
def test_spark_gets_the_credentials_of_the_buckets_that_the_tables_declare(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tables: list[str] | None, needed: set[str]
) -> None:
    names = ("drop", "out", "unused")
    said = "".join(
        f'connections.{name} = {{ path = "s3://{name}", region = "eu-west-1", access_key_id = "{name}-id", '
        f'secret_access_key = {{ secret = "{name}/key" }} }}\n'
        for name in names
    )
    for name in names:
        monkeypatch.setenv(f"WATERCLOCK_SECRET_{name.upper()}_KEY", f"{name}-key")
    (tmp_path / "flows").mkdir()
    (tmp_path / "flows" / "flow.dpl").write_text(BUCKETS)
    (tmp_path / "waterclock.toml").write_text(TOML + said)
    loaded = load_project(tmp_path, capabilities=capabilities())
    for name in set(names) - needed:
        monkeypatch.delenv(f"WATERCLOCK_SECRET_{name.upper()}_KEY")  # it is not read
    confs = settings_of(loaded, tables).confs
    assert {name for name in names if f"{name}-key" in confs.values()} == needed


def test_queries_get_no_credentials_of_sources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def settings(
        loaded: Project, tables: Collection[str] | None = None, *, also: Project | None = None
    ) -> SparkSettings:
        asked.append(tables)
        return settings_of(loaded, tables, also=also)

    monkeypatch.setattr(run_opening, "settings_of", settings)
    loaded = project(tmp_path, "")
    run_opening.sessions_of_queries(loaded).close()
    assert asked == [()]
    run_opening.sessions_of_queries(loaded, loaded).close()
    assert asked == [(), ()]
