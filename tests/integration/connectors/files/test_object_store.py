"""Landing folders, archives and destinations in buckets of a real S3 server."""

from __future__ import annotations

import gzip
import os
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from signal import SIGKILL
from typing import Any

import pytest

from tests.s3 import free_port, server, start_server
from tests.stores import PLACES, JsonBucket, LandingBucket, ParquetBucket, PublishedBucket, fresh_bucket
from tests.systems import LandingFolder, setting_of, unit_of
from waterclock.connectors.delivering import DeliveryOutcome
from waterclock.connectors.files import archiving
from waterclock.connectors.files import landing as land
from waterclock.connectors.files.connector import CONNECTOR
from waterclock.connectors.files.file_name_matching import find, parse_unit_path
from waterclock.connectors.interface import Listing
from waterclock.errors import WaterclockError
from waterclock.faults import inject_faults
from waterclock.files import object_files
from waterclock.files.filesystem import (
    entry_path,
    file_exists,
    files_below,
    open_for_reading,
    open_for_writing,
    put_file_if_absent,
    read_bytes,
)
from waterclock.files.object_stores import register_bucket, store_of
from waterclock.flow.enums import Mode
from waterclock.testing.deliveries import Slices, row

pytestmark = pytest.mark.slow

DAY = datetime(2013, 1, 1, tzinfo=UTC)
ROWS = [{"id": "1", "note": "n"}]


class Struck(Exception):
    pass


def strike_at(wanted: str) -> Callable[[str], None]:
    def strike(point: str) -> None:
        if point == wanted:
            raise Struck

    return strike


def collector(system: LandingFolder) -> Any:
    return system.connector.collector(system.setting)


def listing(system: LandingFolder, path: str = "shop.orders", **options: Any) -> Listing:
    found: Listing = collector(system).arrivals(unit_of("landing", path, **options))
    return found


def requests_of(work: Callable[[], Any]) -> list[str]:
    """Return the kinds of requests that a call sends."""
    time.sleep(0.1)  # the server writes its log line after the response
    before = len(server().requests())
    work()
    time.sleep(0.1)
    return [line.split()[0] for line in server().requests()[before:]]


@pytest.fixture(params=PLACES, ids="-".join)
def system(tmp_path: Path, request: pytest.FixtureRequest) -> LandingBucket:
    return LandingBucket(tmp_path, *request.param)


def test_files_are_listed_put_away_and_found_wherever_they_lie(system: LandingBucket) -> None:
    for hour in range(3):
        system.put(DAY + timedelta(hours=hour), ROWS)
    unfinished = system.put_unfinished(DAY + timedelta(hours=5))
    found = listing(system)
    assert [item.stamp for item in found.items] == [DAY + timedelta(hours=hour) for hour in range(3)]
    assert [(report.path, report.problem) for report in found.reports] == [(str(unfinished), "half-written")]
    assert collector(system).clock(system.unit) == DAY + timedelta(hours=2, seconds=1)
    assert collector(system).schema(system.unit) == {"id": "STRING", "note": "STRING"}
    assert collector(system).archive(system.unit, found.items[:2]) == ()
    after = listing(system)
    assert [(item.name, item.size, item.is_archived) for item in after.items] == [
        (item.name, item.size, place < 2) for place, item in enumerate(found.items)
    ]
    assert {item.path for item in collector(system).find(system.unit, {item.name for item in found.items})} == {
        item.path for item in after.items
    }
    with open_for_reading(after.items[0].path) as archived:
        assert gzip.decompress(archived.read()) == b"id,note\n1,n\n"


@pytest.mark.parametrize("kind", [JsonBucket, ParquetBucket])
def test_a_file_without_its_end_is_reported_as_half_written(tmp_path: Path, kind: type[LandingBucket]) -> None:
    system = kind(tmp_path)
    system.put(DAY, ROWS)
    system.put_unfinished(DAY + timedelta(hours=1))
    found = listing(system)
    assert [item.stamp for item in found.items] == [DAY]
    assert [report.problem for report in found.reports] == ["half-written"]


@pytest.mark.parametrize("point", ["archive.marked", "archive.put"])
@pytest.mark.parametrize("path", ["shop.orders", "shop/**/*.gz"])
def test_a_crash_during_archiving_is_repaired_by_archiving_again(system: LandingBucket, path: str, point: str) -> None:
    system.put(DAY, ROWS)
    unit = unit_of("landing", path)
    items = listing(system, path).items
    with inject_faults(strike_at(point)):
        try:
            collector(system).archive(unit, items)
        except Struck:
            assert listing(system, path).items == items or listing(system, path).items[0].is_archived
    assert collector(system).archive(unit, items) == ()
    assert [(item.name, item.is_archived) for item in listing(system, path).items] == [(items[0].name, True)]
    assert not file_exists(items[0].path)


def test_an_archived_file_is_never_overwritten_with_other_content(system: LandingBucket) -> None:
    path = system.put(DAY, ROWS)
    taken = listing(system).items
    collector(system).archive(system.unit, taken)
    system.put(DAY, [{"id": "2", "note": "another"}])
    found = listing(system)
    assert [item.is_archived for item in found.items] == [True]
    assert [(report.path, report.problem) for report in found.reports] == [(str(path), "same name, other content")]
    (report,) = collector(system).archive(system.unit, [replace(found.items[0], path=str(path))])
    assert report.problem == "same name, other content"
    with open_for_reading(found.items[0].path) as archived:
        assert gzip.decompress(archived.read()) == b"id,note\n1,n\n"


def test_a_file_redelivered_with_equal_content_is_archived_again(system: LandingBucket) -> None:
    path = system.put(DAY, ROWS)
    content = path.read_bytes()
    collector(system).archive(system.unit, listing(system).items)
    path.write_bytes(content)
    (item,) = listing(system).items
    assert not item.is_archived
    assert collector(system).archive(system.unit, [item]) == ()
    assert [item.is_archived for item in listing(system).items] == [True]


def test_a_name_without_a_stamp_keeps_its_arrival_in_the_archive(system: LandingBucket) -> None:
    target = system.source / "prices.csv"
    target.write_bytes(b"id\n1\n")
    if not str(target).startswith("s3:"):
        os.utime(target, (1e9, 1e9))
    else:
        time.sleep(1.1)  # S3 stores times in whole seconds
    (before,) = listing(system, "shop/orders/*.csv").items
    collector(system).archive(unit_of("landing", "shop/orders/*.csv"), [before])
    (after,) = listing(system, "shop/orders/*.csv").items
    assert (after.is_archived, after.stamp) == (True, before.stamp)


def test_a_big_file_is_put_away_in_parts(system: LandingBucket) -> None:
    content = gzip.compress(b"id\n" + os.urandom(20_000_000), compresslevel=0)
    path = system.file(DAY)
    path.write_bytes(content)
    collector(system).archive(system.unit, listing(system).items)
    (item,) = listing(system).items
    assert (item.is_archived, item.size) == (True, len(content))
    with open_for_reading(item.path) as archived:
        assert archived.read() == content
    assert not file_exists(str(path))
    archive = (
        entry_path(str(Path(item.path).parent)) if not item.path.startswith("s3:") else entry_path(item.path).parent
    )
    assert [file.path for file in files_below(archive)] == [item.name]


@pytest.mark.parametrize("archive", ["another bucket", "local"])
@pytest.mark.parametrize("times", [1, 9])
def test_a_file_replaced_during_archiving_is_archived_completely_or_not_at_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, archive: str, times: int
) -> None:
    system = LandingBucket(tmp_path, "s3", "local")
    if archive != "local":
        system.setting = replace(system.setting, archive=entry_path(fresh_bucket(), "archive"))
    contents = [gzip.compress(b"id\n" + os.urandom(20_000_000), compresslevel=0) for _ in range(2)]
    path = system.file(DAY)
    path.write_bytes(contents[0])
    items = listing(system).items
    put: list[bytes] = []
    real = object_files._RangeReader._range

    def ranged(self: Any, begin: int, end: int) -> Any:
        if begin and len(put) < times:
            put.append(contents[(len(put) + 1) % 2])
            path.write_bytes(put[-1])
        return real(self, begin, end)

    with monkeypatch.context() as patched:
        patched.setattr(object_files._RangeReader, "_range", ranged)
        if times == 9:
            with pytest.raises(WaterclockError, match="E807") as error:
                collector(system).archive(system.unit, items)
            assert error.value.transient
        else:
            collector(system).archive(system.unit, items)
    assert collector(system).archive(system.unit, listing(system).items) == ()
    (item,) = listing(system).items
    assert item.is_archived
    with open_for_reading(item.path) as archived:
        assert archived.read() == (put or contents)[-1]


def test_a_big_file_is_copied_on_the_condition_that_none_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(object_files, "_QUICK_COPY_BYTES", 1_000_000)
    path, target, theirs = tmp_path / "big", entry_path(fresh_bucket(), "big"), b"of another"
    path.write_bytes(os.urandom(20_000_000))
    real = object_files.copy_if_absent

    def overtaken(*told: Any) -> bool:
        target.write_bytes(theirs)
        return real(*told)

    monkeypatch.setattr(object_files, "copy_if_absent", overtaken)
    assert not put_file_if_absent(path, target)
    assert read_bytes(target) == theirs
    monkeypatch.setattr(object_files, "copy_if_absent", real)
    assert put_file_if_absent(path, target.with_name("other"))
    assert read_bytes(target.with_name("other")) == path.read_bytes()


def test_a_file_that_changed_since_it_was_listed_is_reported(system: LandingBucket) -> None:
    path = system.put(DAY, ROWS)
    items = listing(system).items
    system.put(DAY, [{"id": "1", "note": "m"}])
    changed = path.read_bytes()
    (report,) = collector(system).archive(system.unit, items)
    assert report.problem == "changed between its read and its archiving"
    (item,) = listing(system).items
    assert (item.is_archived, item.size) == (True, items[0].size)
    assert read_bytes(item.path) == changed


def test_a_file_that_changes_after_it_was_copied_to_the_archive_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    system = LandingBucket(tmp_path)
    path = system.put(DAY, ROWS)
    items = listing(system).items
    read = path.read_bytes()
    real = archiving._has_changed

    def changed_first(*told: Any) -> bool:
        system.put(DAY, [{"id": "2", "note": "later"}])
        return real(*told)

    with monkeypatch.context() as patched:
        patched.setattr(archiving, "_has_changed", changed_first)
        (report,) = collector(system).archive(system.unit, items)
    assert (report.path, report.problem) == (str(path), "same name, other content")
    assert file_exists(path)
    (item,) = listing(system).items
    assert (item.is_archived, read_bytes(item.path)) == (True, read)


def test_a_listing_makes_no_request_per_file(tmp_path: Path) -> None:
    system = LandingBucket(tmp_path)
    for day in range(40):
        folder = system.source / f"2013/{day % 12 + 1:02d}"
        stamp = DAY + timedelta(days=day)
        (folder / f"shop_orders_{stamp:%Y_%m_%d_%H_%M_%S}.csv").write_bytes(b"id\n1\n")
    assert requests_of(lambda: listing(system)) == ["ListObjectsV2"] * 2
    assert requests_of(lambda: collector(system).clock(system.unit)) == ["ListObjectsV2"] * 2
    items = listing(system).items
    assert len(items) == 40
    kinds = Counter(requests_of(lambda: collector(system).archive(system.unit, items)))
    copied = ("CreateMultipartUpload", "UploadPartCopy", "CompleteMultipartUpload")
    assert kinds == dict.fromkeys((*copied, "HeadObject", "DeleteObjects"), 40)
    assert requests_of(lambda: listing(system)) == ["ListObjectsV2"] * 2
    assert requests_of(lambda: collector(system).find(system.unit, [items[3].name])) == ["ListObjectsV2"] * 2


def test_two_tables_that_put_one_file_away_at_once_put_it_away_once(system: LandingBucket) -> None:
    for hour in range(20):
        system.put(DAY + timedelta(hours=hour), ROWS)
    items = listing(system).items
    with ThreadPoolExecutor(3) as threads:
        told = list(threads.map(lambda _: collector(system).archive(system.unit, items), range(3)))
    assert told == [(), (), ()]
    after = listing(system)
    assert [(item.name, item.is_archived) for item in after.items] == [(item.name, True) for item in items]
    assert after.reports == ()


def test_a_claim_that_many_deliver_at_once_is_delivered_once(tmp_path: Path) -> None:
    system = PublishedBucket(tmp_path)
    slices = Slices(fresh_folder(tmp_path), "out.daily.totals")
    for claim in range(1, 6):
        one = slices.of("20130101000000", [row("a", claim)], Mode.APPEND, is_from_partitioned=True)
        with ThreadPoolExecutor(4) as threads:
            work = [threads.submit(deliverer_of(system).deliver, system.unit, [one]) for _ in range(4)]
            told = [each.result()[0] for each in work]
        assert {(each.claim, each.outcome, each.rows) for each in told} == {(claim, DeliveryOutcome.DELIVERED, 1)}
        assert [found["amount"] for found in system.rows()] == [str(claim)]
        assert deliverer_of(system).find_loss(system.unit, "conformance", "out.daily.totals", claim) is None


def deliverer_of(system: PublishedBucket) -> Any:
    return system.connector.deliverer(system.setting)


def fresh_folder(folder: Path) -> Path:
    (folder / "sealed").mkdir()
    return folder / "sealed"


@pytest.mark.soak
def test_archiving_succeeds_again_after_an_outage_of_the_object_store(tmp_path: Path) -> None:
    own = start_server()
    try:
        url = own.url(own.new_bucket())
        setting = setting_of("landing", tmp_path, path=f"{url}/new", archive=f"{url}/archive", **own.options())
        system: Any = CONNECTOR.collector(setting)
        unit = unit_of("landing", "shop.orders")
        entry_path(url, "new/shop/orders/shop_orders_2013_01_01_00_00_00.csv").write_bytes(b"id\n1\n")
        items = system.arrivals(unit).items
        own.stop(SIGKILL)
        for act in (lambda: system.arrivals(unit), lambda: system.archive(unit, items)):
            with pytest.raises(WaterclockError, match="E609") as error:
                act()  # type: ignore[no-untyped-call]
            assert error.value.transient
        own.start()
        assert system.archive(unit, items) == ()
        assert [item.is_archived for item in system.arrivals(unit).items] == [True]
    finally:
        own.stop(SIGKILL)


def test_a_file_that_changed_just_now_is_left_until_it_has_settled(tmp_path: Path) -> None:
    system = LandingBucket(tmp_path)
    system.put(DAY, ROWS)
    assert [report.problem for report in listing(system, settle=600).reports] == ["half-written"]
    assert len(listing(system, settle=0).items) == 1


TREE = [
    *("shop/orders/shop_orders_2013_01_01_00_00_00.csv", "shop/orders/2013/01/shop_orders_2013_01_02_00_00_00.csv.gz"),
    *("shop/orders/strange/x.csv", "shop/orders/strange/deep/y.csv", "shop/orders/_temporary/z.csv"),
    *("shop/orders/.hidden.csv", "shop/orders/2013/.b/q.csv", "shop/orders/2013/odd/q.csv", "shop/orders/else.csv"),
    *("shop/orders/shop_orders_2013_13_01_00_00_00.csv", "shop/orders/shop_orders_2013_01_03_00_00_00.csv.part"),
    *("shop/orders2/shop_orders2_2013_01_01_00_00_00.csv", "web/a b+c%20ü.csv", "web/2017/a#b.csv", "web/x[1].csv"),
    *("web/2017/08/deep_20170818053344.json", "web/readme", "top.csv", "web/2017/08/.w.csv", "web/99999999999999.csv"),
]
PATHS = [
    *("shop.orders", "shop.orders2", "shop.none", "web/*.csv", "web/**/*.csv", "**/*.csv", "*.csv", "web/*/*", "**/*"),
    *(
        "web/a*.csv",
        "to*.csv",
        "none.csv",
        "web/x[[]1].csv",
        "web/201?/*.csv",
        "web/[!r]*",
        "./web/*.csv",
        "web/**/08/*.json",
        "top.csv",
        "web/**/**/*.csv",
    ),
]


@pytest.mark.parametrize("path", PATHS)
def test_names_in_a_bucket_are_read_as_in_a_folder(tmp_path: Path, path: str) -> None:
    url = bucket_with_tree()
    for name in TREE:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(b"id\n1\n")
        os.utime(tmp_path / name, (1e9, 1e9))
    told = []
    for root in (tmp_path, entry_path(url)):
        finds = find(root, parse_unit_path(path), "UTC")
        start = len(str(root).rstrip("/")) + 1
        told.append(
            (
                sorted((one.path[start:], one.relative, one.name) for one in finds.candidates),
                sorted((one.path[start:], one.problem, one.detail) for one in finds.reports),
            )
        )
    assert told[0] == told[1]


_TREES: list[str] = []


def bucket_with_tree() -> str:
    if not _TREES:
        url = fresh_bucket()
        for name in TREE:
            entry_path(url, name).write_bytes(b"id\n1\n")
        _TREES.append(url)
    return _TREES[0]


@pytest.mark.parametrize("zone", ["UTC", "America/New_York"])
def test_a_listing_between_stamps_equals_the_filtered_full_listing(tmp_path: Path, zone: str) -> None:
    system = LandingBucket(tmp_path, stamp_zone=zone)
    stamps = [DAY + timedelta(hours=7 * at) for at in range(30)]
    for place, stamp in enumerate(stamps):
        folder = system.source / "2013" / "01" if place % 2 else system.source
        (folder / f"shop_orders_{stamp:%Y_%m_%d_%H_%M_%S}.csv").write_bytes(b"id\n1\n")
    collector(system).archive(system.unit, listing(system).items[::3])
    landing = land.Landing(entry_path(system.setting.options["path"]), system.setting.archive / "landing", zone)  # type: ignore[arg-type]
    names, now = parse_unit_path("shop.orders"), datetime.now(UTC)
    every = land.list_items(landing, names, now=now).items
    assert len(every) == 30
    low, high = every[5].stamp, every[12].stamp
    wanted = [item for item in every if low <= item.stamp <= high]
    assert list(land.list_between(landing, names, (low, high), now=now)) == wanted
    assert [item for items in land.newest_first(landing, names, now=now) for item in items] == list(reversed(every))


def refused(path: str, **others: str) -> WaterclockError:
    setting = setting_of("landing", Path("/nowhere"), path=path, **(server().options() | others))
    with pytest.raises(WaterclockError) as error:
        CONNECTOR.collector(setting).arrivals(unit_of("landing", "shop.orders"))
    return error.value


def test_an_object_whose_name_cannot_be_used_is_named_and_hides_none_of_another_unit() -> None:
    bucket = server().new_bucket()
    for name in ("shop/orders/a\tb.csv", "shop/others/shop_others_2013_01_01_00_00_00.csv"):
        path = server().folder_of(bucket) / "new" / name
        path.parent.mkdir(parents=True)
        path.write_bytes(b"id\n1\n")
    setting = setting_of("landing", Path("/nowhere"), path=f"s3://{bucket}/new", **server().options())
    collected = CONNECTOR.collector(setting)
    with pytest.raises(WaterclockError, match="E807 an object has a name that cannot be used") as error:
        collected.arrivals(unit_of("landing", "shop.orders"))
    assert error.value.where == f"s3://{bucket}/new/shop/orders/a\\tb.csv"
    assert len(collected.arrivals(unit_of("landing", "shop.others")).items) == 1


def test_a_bucket_that_is_not_there_is_named() -> None:
    error = refused("s3://no-such-bucket/new")
    assert (error.code, error.transient) == ("E609", False)
    assert "no such bucket" in str(error)
    assert "s3://no-such-bucket/new" in str(error)


def test_wrong_credentials_are_reported_without_showing_them() -> None:
    bucket = server().new_bucket()
    error = refused(f"s3://{bucket}/new", secret_access_key="not-the-secret")
    assert (error.code, error.transient) == ("E609", False)
    assert "refuses this user" in str(error)
    assert "not-the-secret" not in str(error)


def test_a_store_that_does_not_answer_may_later() -> None:
    bucket = server().new_bucket()
    error = refused(f"s3://{bucket}/new", endpoint=f"http://127.0.0.1:{free_port()}")
    assert (error.code, error.transient) == ("E609", True)
    assert "does not answer" in str(error)


def test_a_connection_without_options_registers_its_bucket_and_keeps_known_options() -> None:
    url, new = fresh_bucket(), "s3://of-nobody-yet"
    for bucket in (url, new):
        CONNECTOR.collector(setting_of("landing", Path("/nowhere"), path=f"{bucket}/new"))
        CONNECTOR.deliverer(setting_of("out", Path("/nowhere"), path=f"{bucket}/out"))
    told = [store.options for store in map(store_of, (url, new)) if store is not None]
    assert told == [server().options(), {}]


def test_an_endpoint_that_is_no_address_is_refused_when_it_is_opened() -> None:
    setting = setting_of("landing", Path("/nowhere"), path="s3://lake/new", endpoint="localhost")
    with pytest.raises(WaterclockError, match="E609") as error:
        CONNECTOR.collector(setting)
    assert "localhost" in str(error.value)


@pytest.mark.parametrize("act", ["kill", "find", "last", "find_loss"])
def test_an_inaccessible_destination_is_reported_as_such(tmp_path: Path, act: str) -> None:
    system = PublishedBucket(tmp_path)
    register_bucket(str(system.folder), server().options(secret="wrong"))
    setting = replace(system.setting, options={"path": str(system.folder)})
    deliverer: Any = CONNECTOR.deliverer(setting)
    arguments = () if act == "last" else (1,)
    with pytest.raises(WaterclockError, match="E609"):
        getattr(deliverer, act)(system.unit, "p", "out.daily", *arguments)


def test_a_written_object_appears_completely_or_not_at_all() -> None:
    path = entry_path(fresh_bucket(), "a", "b.csv")
    with suppress(Struck), open_for_writing(path) as file:
        file.write(b"x" * 12_000_000)
        raise Struck
    assert not file_exists(path)
    with open_for_writing(path) as file:
        file.write(b"y" * 12_000_000)
        assert not file_exists(path)
    assert read_bytes(path) == b"y" * 12_000_000


def test_a_file_is_read_with_range_requests_for_the_needed_bytes() -> None:
    path = entry_path(fresh_bucket(), "big")
    content = os.urandom(5_000_000)
    path.write_bytes(content)
    with open_for_reading(path) as file:
        assert requests_of(lambda: (file.seek(4_000_000), file.read(10))) == ["GetObject"]
        file.seek(0)
        read: list[bytes] = []
        asked = requests_of(lambda: read.extend(iter(lambda: file.read(1000), b"")))
        assert len(asked) == 3  # of one, two and four mebibytes
        assert b"".join(read) == content
        file.seek(-8, os.SEEK_END)
        assert file.read() == content[-8:]
        file.seek(0)
        assert file.read() == content
