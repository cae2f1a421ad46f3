"""Linked projects of untrusted users: their logs evaluate nothing here, and lead only to their own files."""

from __future__ import annotations

import io
import json
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.ledgers import flow, table
from tests.other_project import NAME, OtherProject
from tests.security.strangers import MALLORY, give, needs_root
from tests.systems import setting_of, unit_of
from waterclock.batches.records import Pin, Slice
from waterclock.connectors.waterclock.connector import WaterclockCollector
from waterclock.connectors.waterclock.outside_links import require_folder_within
from waterclock.errors import WaterclockError
from waterclock.flow.declarations import Columns
from waterclock.flow.enums import Mode
from waterclock.storage.log.open_tables import forget_open_table
from waterclock.timelabel.window import Window

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

DAY, HOUR = datetime(2013, 1, 1, tzinfo=UTC), timedelta(hours=1)
LATEST = "shop.latest"
DEFAULT = {"EXISTS_DEFAULT": "concat('evaluated by ', current_user())"}


class Mallory(OtherProject):
    """A project with a table of slices and a MERGE table whose log is written by hand."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.flow = flow(self.slices, table(LATEST, mode=Mode.MERGE, keys=("id",)))
        self.land(DAY, [{"id": "1", "note": "first"}])
        self.here = WaterclockCollector(self.setting)

    def change_log(self, metadata: dict[str, str]) -> None:
        """Add a column to the log of the table of slices that none of its files contains."""
        log = self.storage / "tables/shop/orders/_delta_log" / f"{0:020d}.json"
        actions = [json.loads(line) for line in log.read_text().splitlines()]
        for action in actions:
            if "metaData" in action:
                schema = json.loads(action["metaData"]["schemaString"])
                schema["fields"].append({"name": "more", "type": "string", "nullable": True, "metadata": metadata})
                action["metaData"]["schemaString"] = json.dumps(schema)
        log.write_text("\n".join(map(json.dumps, actions)))
        forget_open_table(str(log.parents[1]))

    def write_state(
        self, path: str, note: str = "own", *, metadata: dict[str, str] | None = None, is_plain: bool = True
    ) -> Path:
        """Write the MERGE table with one file at `path`, as its log names it, for a row that `put` writes.

        Return the table's folder.
        """
        folder = self.storage / "tables/shop/latest"
        (folder / "_delta_log").mkdir(parents=True)
        fields: list[dict[str, Any]] = [
            {"name": name, "type": "string", "nullable": True, "metadata": {}} for name in ("timelabel", "id")
        ]
        fields.append({"name": "more", "type": "string", "nullable": True, "metadata": metadata or {}})
        schema = json.dumps({"type": "struct", "fields": fields})
        protocol: dict[str, Any] = {"minReaderVersion": 1, "minWriterVersion": 2}
        if not is_plain:
            features = ["deletionVectors"]
            protocol = {"minReaderVersion": 3, "minWriterVersion": 7}
            protocol |= {"readerFeatures": features, "writerFeatures": features}
        actions = [
            {"protocol": protocol},
            {
                "metaData": {
                    "id": "1", "format": {"provider": "parquet", "options": {}}, "schemaString": schema,
                    "partitionColumns": [], "configuration": {}, "createdTime": 1,
                }
            },
            {"add": {"path": path, "partitionValues": {}, "size": len(file_of(note)), "modificationTime": 1,
                     "dataChange": True}},
        ]  # fmt: skip
        (folder / "_delta_log" / f"{0:020d}.json").write_text("\n".join(map(json.dumps, actions)))
        return folder

    def read_slices(self, spark: SparkSession) -> DataFrame:
        unit, window = unit_of("upstream", NAME), Window(DAY, DAY + HOUR)
        [pin] = self.here.pins(unit, [(window.start, window.end)])
        return self.here.read_pinned(spark, unit, [(window, pin)], Columns(), by_label=True).frame

    def read_state(self, spark: SparkSession) -> DataFrame:
        unit, window = unit_of("upstream", LATEST), Window(DAY, DAY + HOUR)
        piece = Slice(LATEST, DAY, DAY + HOUR, 1, 0, 1, 1, None, "_stage/x", None)
        pin = Pin(LATEST, DAY, DAY + HOUR, "tables/shop/latest", 0, "", (piece,), 1)
        return self.here.read_pinned(spark, unit, [(window, pin)], Columns(), by_label=False).frame


@pytest.fixture
def mallory(tmp_path: Path) -> Mallory:
    return Mallory(tmp_path)


def put(path: Path, note: str) -> str:
    """Write a file of one row, as Waterclock's tables have them."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(file_of(note))
    return str(path)


def file_of(note: str) -> bytes:
    """Return the Parquet file of a row."""
    written = io.BytesIO()
    pq.write_table(pa.table({"timelabel": ["20130101000000"], "id": [note]}), written)
    return written.getvalue()


@pytest.mark.spark
def test_defaults_in_a_log_are_not_evaluated(spark: SparkSession, mallory: Mallory) -> None:
    """Regression: Spark filled missing columns with them; a `repeat` of 300 MB ended the JVM."""
    mallory.change_log(DEFAULT)
    put(mallory.write_state("f.parquet", metadata=DEFAULT) / "f.parquet", "own")
    slices, state = mallory.read_slices(spark), mallory.read_state(spark)
    assert [(row["id"], row["more"]) for row in slices.collect()] == [("1", None)]
    assert [(row["id"], row["more"]) for row in state.collect()] == [("own", None)]
    assert not any(field.metadata for frame in (slices, state) for field in frame.schema)


@pytest.mark.spark
def test_a_log_that_only_spark_reads_has_no_defaults(spark: SparkSession, mallory: Mallory) -> None:
    put(mallory.write_state("f.parquet", metadata=DEFAULT, is_plain=False) / "f.parquet", "own")
    with pytest.raises(WaterclockError, match="E838") as refused:
        mallory.read_state(spark)
    assert "EXISTS_DEFAULT" in refused.value.render()


@pytest.mark.spark
@pytest.mark.parametrize("is_plain", [True, False])
@pytest.mark.parametrize("form", ["{}", "file://{}", "../../../../../private/f.parquet", "_stage/../../../f.parquet"])
def test_a_log_leads_to_no_files_outside_of_the_table(
    spark: SparkSession, mallory: Mallory, tmp_path: Path, form: str, *, is_plain: bool
) -> None:
    mallory.write_state(form.format(put(tmp_path / "private" / "f.parquet", "private")), is_plain=is_plain)
    with pytest.raises(WaterclockError, match="E838") as refused:
        mallory.read_state(spark)
    assert "leads out of the table's folder" in refused.value.render()


@needs_root
@pytest.mark.spark
@pytest.mark.parametrize("is_plain", [True, False])
def test_symlinks_among_the_files_of_another_user_are_not_followed(
    spark: SparkSession, mallory: Mallory, tmp_path: Path, *, is_plain: bool
) -> None:
    private = put(tmp_path / "private" / "f.parquet", "private")
    folder = mallory.write_state("part/f.parquet", "private", is_plain=is_plain)
    (folder / "part").symlink_to(Path(private).parent)
    [sealed] = mallory.storage.glob("tables/shop/orders/_stage/**/*.parquet")
    sealed.rename(sealed.with_suffix(".kept"))
    sealed.symlink_to(sealed.with_suffix(".kept"))
    assert [row["id"] for row in mallory.read_state(spark).collect()] == ["private"], "links of our own are followed"
    give(mallory.root, MALLORY)
    for read in (mallory.read_state, mallory.read_slices):
        with pytest.raises(WaterclockError, match="E838") as refused:
            read(spark)
        assert "it is a link" in refused.value.render()


@needs_root
def test_a_table_folder_of_another_user_must_be_within_their_storage(mallory: Mallory, tmp_path: Path) -> None:
    """Regression: a link there was followed with our permissions.

    So was the folder of a renamed table in their ledger.
    """
    folder = mallory.storage / "tables/shop/orders"
    folder.rename(tmp_path / "private")
    folder.symlink_to(tmp_path / "private")
    assert mallory.here.schema(unit_of("upstream", NAME)), "links of our own are followed"
    give(mallory.root, MALLORY)
    with pytest.raises(WaterclockError, match="E838") as refused:
        mallory.here.schema(unit_of("upstream", NAME))
    assert "leads out of the storage" in refused.value.render()


@pytest.mark.parametrize("kind", ["a file", "closed"])
def test_an_inaccessible_storage_is_reported(mallory: Mallory, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    elsewhere = mallory.root / "elsewhere"
    elsewhere.write_text("")
    storage = elsewhere / "lake" if kind == "a file" else mallory.root / "lake"
    if kind == "closed":

        def refuse(*_: object) -> None:
            raise PermissionError(13, "Permission denied")

        monkeypatch.setattr("waterclock.connectors.waterclock.outside_links.foreign_writer", refuse)
        storage.mkdir()
    with pytest.raises(WaterclockError, match="E838"):
        require_folder_within(str(storage), f"{storage}/tables/a/b")


@pytest.mark.parametrize("options", [{"path": "a"}, {"storage": "a"}, {"path": "theirs"}])
def test_links_that_lead_to_each_other_are_reported(tmp_path: Path, options: dict[str, str]) -> None:
    """Regression: they ended each command of the project in E999."""
    (tmp_path / "theirs").mkdir()
    (tmp_path / "theirs/waterclock.toml").write_text('[project]\nname = "theirs"\n[env.dev]\nstorage = "a"\n')
    for folder in (tmp_path, tmp_path / "theirs"):
        (folder / "a").symlink_to("b")
        (folder / "b").symlink_to("a")
    found = WaterclockCollector(setting_of("upstream", tmp_path, **options)).facts(unit_of("upstream", NAME))
    assert found.problem is not None
    assert found.problem.code in {"E833", "E838"}


@needs_root
@pytest.mark.parametrize(
    ("line", "option"),
    [
        ('storage = "../private/.waterclock"', "storage"),
        ('storage = "link"', "storage"),
        ('storage = "s3://private/lake"', "storage"),
        ('ledger = "sqlite:///../private/.waterclock/ledger.db"', "ledger"),
    ],
)
def test_a_project_file_of_another_user_cannot_name_a_storage_or_ledger_elsewhere(
    tmp_path: Path, line: str, option: str
) -> None:
    """Regression: it named our own private storage, whose rows were then collected for its readers."""
    (tmp_path / "ours").mkdir()
    ours = OtherProject(tmp_path / "ours")
    ours.land(DAY, [{"id": "1", "note": "private"}])
    ours.root.rename(tmp_path / "private")
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    (theirs / "link").symlink_to(tmp_path / "private/.waterclock")
    (theirs / "waterclock.toml").write_text(f'[project]\nname = "theirs"\n[env.dev]\n{line}\n')
    unit = unit_of("upstream", NAME)

    def place(**options: str) -> str:
        collector = WaterclockCollector(setting_of("upstream", tmp_path, path="theirs", **options))
        try:
            return collector.place().storage
        except WaterclockError as error:
            return f"{error.code} {error.fix}"

    assert Path(place()).is_absolute() or place().startswith("s3://"), "our own file is followed"
    give(theirs, MALLORY)
    assert place() == f"E833 set {option} in connection upstream of this project"
    found = WaterclockCollector(setting_of("upstream", tmp_path, path="theirs")).facts(unit)
    assert found.problem is not None
    named = {"storage": "private/.waterclock", "ledger": f"sqlite:///{tmp_path}/private/.waterclock/ledger.db"}
    assert place(**named) == str(tmp_path / "private/.waterclock"), "files that we named ourselves are read"
    os.chown(theirs, 0, 0)
