"""Our own connectors pass the public suites, as far as these need no Spark."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.apis import ApiSystem
from tests.other_project import OtherProject
from tests.stores import PublishedBucket
from tests.systems import (
    DuckDatabase,
    Endpoint,
    FirebirdDatabase,
    LandingFolder,
    MysqlDatabase,
    PostgresDatabase,
    PublishedFolder,
    SqliteDatabase,
    Tables,
)
from waterclock.flow.declarations import Value
from waterclock.testing.completeness import CompletenessConformance
from waterclock.testing.connectors import ConnectorConformance
from waterclock.testing.deliveries import DeliveryConformance
from waterclock.testing.sealing import SealingConformance


class TestFilesConnector(ConnectorConformance):
    @pytest.fixture
    def system(self, tmp_path: Path) -> LandingFolder:
        return LandingFolder(tmp_path)


class TestRestConnector(ConnectorConformance):
    @pytest.fixture
    def system(self, tmp_path: Path) -> ApiSystem:
        return ApiSystem.receiving(tmp_path)


class TestRestDeliveries(DeliveryConformance):
    """An API that replaces the rows of a label by those of a newer claim, as request headers allow it."""

    @pytest.fixture(params=[{}, {"chunk": 1}])
    def system(self, tmp_path: Path, request: pytest.FixtureRequest) -> ApiSystem:
        options: dict[str, Value] = request.param
        return ApiSystem.receiving(tmp_path, **options)


class TestReceiverConnector(ConnectorConformance):
    @pytest.fixture
    def system(self, tmp_path: Path) -> Endpoint:
        return Endpoint(tmp_path)


class TestReceiverSealing(SealingConformance):
    @pytest.fixture
    def system(self, tmp_path: Path) -> Endpoint:
        return Endpoint(tmp_path)


class TestSqliteConnector(ConnectorConformance):
    @pytest.fixture
    def system(self, tmp_path: Path) -> SqliteDatabase:
        return SqliteDatabase(tmp_path)


class TestSqliteDeliveries(DeliveryConformance):
    @pytest.fixture
    def system(self, tmp_path: Path) -> SqliteDatabase:
        return SqliteDatabase(tmp_path)


class TestDuckdbConnector(ConnectorConformance):
    @pytest.fixture
    def system(self, tmp_path: Path) -> DuckDatabase:
        return DuckDatabase(tmp_path)


class TestDuckdbDeliveries(DeliveryConformance):
    @pytest.fixture
    def system(self, tmp_path: Path) -> DuckDatabase:
        return DuckDatabase(tmp_path)


class TestWaterclockConnector(ConnectorConformance):
    @pytest.fixture
    def system(self, tmp_path: Path) -> OtherProject:
        return OtherProject(tmp_path)


@pytest.mark.slow
class TestPostgresConnector(ConnectorConformance):
    @pytest.fixture
    def system(self, tmp_path: Path) -> PostgresDatabase:
        return PostgresDatabase(tmp_path)


@pytest.mark.slow
class TestPostgresDeliveries(DeliveryConformance):
    @pytest.fixture
    def system(self, tmp_path: Path) -> PostgresDatabase:
        return PostgresDatabase(tmp_path)


@pytest.mark.slow
class TestMysqlConnector(ConnectorConformance):
    @pytest.fixture
    def system(self, tmp_path: Path) -> MysqlDatabase:
        return MysqlDatabase(tmp_path)


@pytest.mark.slow
class TestMysqlDeliveries(DeliveryConformance):
    @pytest.fixture
    def system(self, tmp_path: Path) -> MysqlDatabase:
        return MysqlDatabase(tmp_path)


@pytest.mark.slow
class TestFirebirdConnector(ConnectorConformance):
    @pytest.fixture
    def system(self, tmp_path: Path) -> FirebirdDatabase:
        return FirebirdDatabase(tmp_path)


@pytest.mark.slow
class TestFirebirdDeliveries(DeliveryConformance):
    @pytest.fixture
    def system(self, tmp_path: Path) -> FirebirdDatabase:
        return FirebirdDatabase(tmp_path)


class TestFilesDeliveries(DeliveryConformance):
    @pytest.fixture(
        params=[
            {},
            {"format": "csv", "compression": "gzip"},
            {"format": "json"},
            {"format": "parquet"},
            {"format": "avro"},
            {"format": "excel"},
        ]
    )
    def system(self, tmp_path: Path, request: pytest.FixtureRequest) -> PublishedFolder:
        options: dict[str, Value] = request.param
        return PublishedFolder(tmp_path, **options)


@pytest.mark.slow
class TestStoredFilesDeliveries(DeliveryConformance):
    @pytest.fixture(params=[{}, {"format": "json", "compression": "gzip"}, {"format": "parquet"}, {"format": "excel"}])
    def system(self, tmp_path: Path, request: pytest.FixtureRequest) -> PublishedBucket:
        options: dict[str, Value] = request.param
        return PublishedBucket(tmp_path, **options)


class TestSigns(CompletenessConformance):
    @pytest.fixture(
        params=[
            LandingFolder,
            SqliteDatabase,
            DuckDatabase,
            pytest.param(PostgresDatabase, marks=pytest.mark.slow),
            pytest.param(FirebirdDatabase, marks=pytest.mark.slow),
        ]
    )
    def system(self, tmp_path: Path, request: pytest.FixtureRequest) -> LandingFolder | Tables:
        made: LandingFolder | Tables = request.param(tmp_path)
        return made
