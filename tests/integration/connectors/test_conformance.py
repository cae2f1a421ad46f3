"""Our own connectors, held against the public suites."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.other_project import OtherProject
from tests.systems import (
    HeldFolder,
    JsonFolder,
    KindFolder,
    LandingFolder,
    ParquetFolder,
    PostgresDatabase,
    SqliteDatabase,
    TimedDatabase,
    TimedFolder,
    TimedPostgres,
)
from waterclock.testing.connectors import ArrivalConformance, LinkedConformance, SnapshotConformance, WindowConformance

pytestmark = pytest.mark.spark


class TestFilesByArrival(ArrivalConformance):
    @pytest.fixture(params=[LandingFolder, JsonFolder, ParquetFolder])
    def system(self, tmp_path: Path, request: pytest.FixtureRequest) -> LandingFolder:
        made: LandingFolder = request.param(tmp_path)
        return made


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


class TestSqliteByDataTime(WindowConformance):
    @pytest.fixture(params=["text", "zoned", "epoch"])
    def system(self, tmp_path: Path, request: pytest.FixtureRequest) -> TimedDatabase:
        return TimedDatabase(tmp_path, request.param)


class TestSqliteAsSnapshot(SnapshotConformance):
    @pytest.fixture
    def system(self, tmp_path: Path) -> SqliteDatabase:
        return SqliteDatabase(tmp_path)


class TestPostgresByDataTime(WindowConformance):
    @pytest.fixture(params=["timestamptz", "timestamp", "bigint"])
    def system(self, tmp_path: Path, request: pytest.FixtureRequest) -> TimedPostgres:
        return TimedPostgres(tmp_path, request.param)


class TestPostgresAsSnapshot(SnapshotConformance):
    @pytest.fixture
    def system(self, tmp_path: Path) -> PostgresDatabase:
        return PostgresDatabase(tmp_path)


class TestAnotherProject(LinkedConformance):
    @pytest.fixture
    def system(self, tmp_path: Path) -> OtherProject:
        return OtherProject(tmp_path)
