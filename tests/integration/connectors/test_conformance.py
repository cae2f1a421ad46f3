"""Our own connectors pass the public conformance suites."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.apis import ApiSystem, in_pages
from tests.other_project import OtherProject
from tests.postgres import drop_all_slots
from tests.systems import (
    DuckDatabase,
    Endpoint,
    FirebirdDatabase,
    FollowedPostgres,
    HeldFolder,
    JsonFolder,
    KindFolder,
    LandingFolder,
    MysqlDatabase,
    ParquetFolder,
    PostgresDatabase,
    RevisedDatabase,
    RevisedFirebird,
    RevisedFolder,
    RevisedPostgres,
    SqliteDatabase,
    TimedDatabase,
    TimedDuck,
    TimedFirebird,
    TimedFolder,
    TimedMysql,
    TimedPostgres,
    unit_of,
)
from waterclock.testing.change_scans import ChangeScanConformance
from waterclock.testing.changes import ChangesConformance
from waterclock.testing.connectors import ArrivalConformance, SnapshotConformance, WindowConformance
from waterclock.testing.links import LinkedConformance

pytestmark = pytest.mark.spark


class TestFilesByArrival(ArrivalConformance):
    @pytest.fixture(params=[LandingFolder, JsonFolder, ParquetFolder])
    def system(self, tmp_path: Path, request: pytest.FixtureRequest) -> LandingFolder:
        made: LandingFolder = request.param(tmp_path)
        return made


class TestReceiverByArrival(ArrivalConformance):
    @pytest.fixture
    def system(self, tmp_path: Path) -> Endpoint:
        return Endpoint(tmp_path)


@pytest.mark.sampled(1)
class TestKindsByArrival(ArrivalConformance):
    @pytest.fixture(params=["json", "xml", "txt", "avro", "xlsx", "zip"])
    def system(self, tmp_path: Path, request: pytest.FixtureRequest) -> KindFolder:
        return KindFolder(tmp_path, request.param)


class TestFilesByDataTime(WindowConformance):
    @pytest.fixture(params=["America/New_York", None])
    def system(self, tmp_path: Path, request: pytest.FixtureRequest) -> TimedFolder:
        return TimedFolder(tmp_path, request.param)


class TestFilesAsSnapshot(SnapshotConformance):
    @pytest.fixture
    def system(self, tmp_path: Path) -> HeldFolder:
        return HeldFolder(tmp_path)


@pytest.mark.slow
class TestMysqlByDataTime(WindowConformance):
    @pytest.fixture(params=["timestamp", "datetime", "bigint"])
    def system(self, tmp_path: Path, request: pytest.FixtureRequest) -> TimedMysql:
        return TimedMysql(tmp_path, request.param)


@pytest.mark.slow
class TestMysqlAsSnapshot(SnapshotConformance):
    @pytest.fixture
    def system(self, tmp_path: Path) -> MysqlDatabase:
        return MysqlDatabase(tmp_path)


@pytest.mark.slow
class TestFirebirdByDataTime(WindowConformance):
    @pytest.fixture(params=["timestamp", "bigint"])
    def system(self, tmp_path: Path, request: pytest.FixtureRequest) -> TimedFirebird:
        return TimedFirebird(tmp_path, request.param)


@pytest.mark.slow
class TestFirebirdAsSnapshot(SnapshotConformance):
    @pytest.fixture
    def system(self, tmp_path: Path) -> FirebirdDatabase:
        return FirebirdDatabase(tmp_path)


@pytest.mark.slow
class TestFirebirdLooks(ChangeScanConformance):
    @pytest.fixture
    def system(self, tmp_path: Path) -> RevisedFirebird:
        return RevisedFirebird(tmp_path)


class TestRestByDataTime(WindowConformance):
    @pytest.fixture(params=[("cursor", True), ("page", False)])
    def system(self, tmp_path: Path, request: pytest.FixtureRequest) -> ApiSystem:
        style, is_asked = request.param
        return ApiSystem.timed(tmp_path, style, is_asked=is_asked)


class TestRestAsSnapshot(SnapshotConformance):
    @pytest.fixture
    def system(self, tmp_path: Path) -> ApiSystem:
        return ApiSystem(tmp_path, unit_of("api", "offset", **in_pages("offset", 2)))


class TestSqliteByDataTime(WindowConformance):
    @pytest.fixture(params=["text", "zoned", "epoch"])
    def system(self, tmp_path: Path, request: pytest.FixtureRequest) -> TimedDatabase:
        return TimedDatabase(tmp_path, request.param)


class TestSqliteAsSnapshot(SnapshotConformance):
    @pytest.fixture
    def system(self, tmp_path: Path) -> SqliteDatabase:
        return SqliteDatabase(tmp_path)


class TestDuckdbByDataTime(WindowConformance):
    @pytest.fixture(params=["timestamptz", "timestamp", "bigint"])
    def system(self, tmp_path: Path, request: pytest.FixtureRequest) -> TimedDuck:
        return TimedDuck(tmp_path, request.param)


class TestDuckdbAsSnapshot(SnapshotConformance):
    @pytest.fixture
    def system(self, tmp_path: Path) -> DuckDatabase:
        return DuckDatabase(tmp_path)


class TestPostgresByChanges(ChangesConformance):
    @pytest.fixture(params=["pgoutput", pytest.param("wal2json", marks=pytest.mark.soak)])
    def system(self, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[FollowedPostgres]:
        yield FollowedPostgres(tmp_path, request.param)
        drop_all_slots()


class TestPostgresByDataTime(WindowConformance):
    @pytest.fixture(params=["timestamptz", "timestamp", "bigint"])
    def system(self, tmp_path: Path, request: pytest.FixtureRequest) -> TimedPostgres:
        return TimedPostgres(tmp_path, request.param)


class TestPostgresAsSnapshot(SnapshotConformance):
    @pytest.fixture
    def system(self, tmp_path: Path) -> PostgresDatabase:
        return PostgresDatabase(tmp_path)


class TestLooks(ChangeScanConformance):
    @pytest.fixture(params=[RevisedFolder, RevisedDatabase, RevisedPostgres])
    def system(
        self, tmp_path: Path, request: pytest.FixtureRequest
    ) -> RevisedFolder | RevisedDatabase | RevisedPostgres:
        made: RevisedFolder | RevisedDatabase | RevisedPostgres = request.param(tmp_path)
        return made


class TestAnotherProject(LinkedConformance):
    @pytest.fixture
    def system(self, tmp_path: Path) -> OtherProject:
        return OtherProject(tmp_path)
