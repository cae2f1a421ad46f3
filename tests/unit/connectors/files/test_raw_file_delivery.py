"""Files are copied unchanged: bytes, names, times and order; once, despite obstacles; and never damaged ones."""

from __future__ import annotations

import os
import random
import signal
from collections.abc import Callable, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.shelves import DAY, Shelf
from tests.systems import PublishedFolder, unit_of
from waterclock.connectors.delivering import Delivered, Delivery, DeliveryOutcome
from waterclock.connectors.files import raw_file_delivery, raw_files
from waterclock.connectors.files.connector import CAPABILITIES
from waterclock.connectors.files.delivery import FilesDeliverer
from waterclock.errors import WaterclockError
from waterclock.faults import inject_faults

POINTS = ("deliver.copied", "deliver.rows", "deliver.latched", "deliver.done")


class Struck(Exception):
    pass


@pytest.fixture
def out(tmp_path: Path) -> PublishedFolder:
    return PublishedFolder(tmp_path)


@pytest.fixture
def shelf(tmp_path: Path) -> Shelf:
    return Shelf(tmp_path)


def deliverer(out: PublishedFolder) -> FilesDeliverer:
    found = out.connector.deliverer(out.setting)
    assert isinstance(found, FilesDeliverer)
    return found


def deliver(out: PublishedFolder, *deliveries: Delivery, **options: Any) -> tuple[Delivered, ...]:
    unit = unit_of("out", "copy", format="raw", **({"keep": "all"} | options))
    return deliverer(out).deliver(unit, deliveries)


def lost(out: PublishedFolder, claim: int = 1) -> str | None:
    return deliverer(out).find_loss(unit_of("out", "copy", format="raw"), "scans", "out.copy", claim)


def copies(out: PublishedFolder) -> dict[str, tuple[bytes, float]]:
    folder = out.folder / "copy"
    found = (path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): (path.read_bytes(), path.stat().st_mtime) for path in found}


def left_over(out: PublishedFolder) -> list[Path]:
    return [path for path in (out.folder / "_waterclock" / "parts").rglob("*") if path.is_file()]


def some_files(shelf: Shelf, many: int = 6) -> list[Path]:
    drawn = random.Random(7)
    names = [f"{'inner/' * (number % 2)}scan {number} ü😀.bin" for number in range(many)]
    contents = [b"", *(drawn.randbytes(drawn.randrange(1, 3 << 20)) for _ in names[1:])]
    return [
        shelf.file(name, content, DAY + timedelta(days=number, microseconds=number))
        for number, (name, content) in enumerate(zip(names, contents, strict=True))
    ]


def wanted(shelf: Shelf, paths: Sequence[Path]) -> dict[str, tuple[bytes, float]]:
    folder = shelf.root / "archive"
    return {path.relative_to(folder).as_posix(): (path.read_bytes(), path.stat().st_mtime) for path in paths}


def test_bytes_names_and_times_are_those_of_the_originals(out: PublishedFolder, shelf: Shelf) -> None:
    paths = some_files(shelf)
    (done,) = deliver(out, shelf.delivery(paths))
    assert (done.outcome, done.rows) == (DeliveryOutcome.DELIVERED, len(paths))
    assert copies(out) == wanted(shelf, paths)
    assert lost(out) is None
    assert left_over(out) == []


def test_a_copy_is_no_link_to_its_original(out: PublishedFolder, shelf: Shelf) -> None:
    path = shelf.file("a.bin", b"one")
    deliver(out, shelf.delivery([path]))
    (out.folder / "copy" / "a.bin").write_bytes(b"two")
    assert path.read_bytes() == b"one"


def test_modification_times_are_not_kept_without_the_keep_option(out: PublishedFolder, shelf: Shelf) -> None:
    deliver(out, shelf.delivery([shelf.file("a.bin", b"one")]), keep=None)
    ((_, changed),) = copies(out).values()
    assert changed != DAY.timestamp()


def test_files_come_in_the_order_in_which_they_arrived(
    out: PublishedFolder, shelf: Shelf, monkeypatch: pytest.MonkeyPatch
) -> None:
    moved: list[str] = []

    def noted(part: Path, target: Path) -> None:
        moved.append(target.name)
        part.replace(target)

    monkeypatch.setattr("waterclock.connectors.files.delivery.move_file", noted)
    first = [shelf.file(name, name.encode()) for name in ("b", "a")]
    second = [shelf.file(name, name.encode()) for name in ("d", "c")]
    deliver(out, shelf.delivery(first, label=1), shelf.delivery(second, label=2))
    assert moved == ["b", "a", "d", "c"]


def test_a_claim_is_delivered_once(out: PublishedFolder, shelf: Shelf) -> None:
    one = shelf.delivery(some_files(shelf, 2))
    deliver(out, one)
    (again,) = deliver(out, one)
    assert again.is_repeat
    assert len(shelf.asked) == 2


def test_unchanged_copies_are_not_copied_again(out: PublishedFolder, shelf: Shelf) -> None:
    paths = some_files(shelf, 3)
    deliver(out, shelf.delivery(paths))
    kept = {path: path.stat().st_ino for path in (out.folder / "copy").rglob("*.bin")}
    deliver(out, shelf.delivery(paths, claim=2))
    assert {path: path.stat().st_ino for path in (out.folder / "copy").rglob("*.bin")} == kept
    assert lost(out, 2) is None


@pytest.mark.parametrize("point", POINTS)
def test_a_new_attempt_reuses_files_copied_by_a_stopped_attempt(out: PublishedFolder, shelf: Shelf, point: str) -> None:
    paths = some_files(shelf)
    left = [3]

    def strike(passed: str) -> None:
        left[0] -= passed == point
        if passed == point and (point != "deliver.copied" or left[0] == 0):
            raise Struck

    with inject_faults(strike), pytest.raises(Struck):
        deliver(out, shelf.delivery(paths))
    copied: list[str] = []
    with pytest.MonkeyPatch.context() as patched:
        real = raw_file_delivery.Copier._copy_to_part

        def noted(self: Any, source: str, *more: Any) -> None:
            copied.append(source)
            real(self, source, *more)

        patched.setattr(raw_file_delivery.Copier, "_copy_to_part", noted)
        deliver(out, shelf.delivery(paths, claim=1 if point in {"deliver.latched", "deliver.done"} else 2))
    assert len(copied) == (len(paths) - 3 if point == "deliver.copied" else 0)
    assert copies(out) == wanted(shelf, paths)
    assert left_over(out) == []


@pytest.mark.parametrize("point", POINTS)
def test_a_killed_runner_leaves_whole_files_and_the_next_one_all(
    out: PublishedFolder, shelf: Shelf, point: str
) -> None:
    paths = some_files(shelf)
    if (child := os.fork()) == 0:  # the child never returns from here
        with inject_faults(lambda passed: os.kill(os.getpid(), signal.SIGKILL) if passed == point else None):
            deliver(out, shelf.delivery(paths))
        os._exit(0)
    assert os.WTERMSIG(os.waitpid(child, 0)[1]) == signal.SIGKILL
    told = wanted(shelf, paths)
    assert copies(out).items() <= told.items()
    stands = deliverer(out).find(unit_of("out", "copy", format="raw"), "scans", "out.copy", 1)
    assert (stands is not None) is (point in {"deliver.latched", "deliver.done"})
    deliver(out, shelf.delivery(paths, claim=1 if stands else 2))
    assert copies(out) == told


def test_a_kill_before_the_delivery_brings_nothing(out: PublishedFolder, shelf: Shelf) -> None:
    deliverer(out).kill(unit_of("out", "copy", format="raw"), "scans", "out.copy", 1)
    (stands,) = deliver(out, shelf.delivery(some_files(shelf, 2)))
    assert stands.outcome is DeliveryOutcome.KILLED
    assert copies(out) == {}


def test_a_copy_that_is_written_wrongly_is_found_and_none_is_sent(
    out: PublishedFolder, shelf: Shelf, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = some_files(shelf, 3)
    real = raw_files.digest_of

    def rotten(path: Path) -> str:
        if str(path).endswith(".tmp"):
            content = bytearray(Path(path).read_bytes())
            if content:
                content[-1] ^= 1
                Path(path).write_bytes(content)
        return real(path)

    monkeypatch.setattr(raw_file_delivery, "digest_of", rotten)
    with pytest.raises(WaterclockError) as refused:
        deliver(out, shelf.delivery(paths))
    assert refused.value.code == "E383"
    assert refused.value.transient
    assert copies(out) == {}


def test_a_changed_or_missing_original_fails_the_delivery(out: PublishedFolder, shelf: Shelf) -> None:
    paths = some_files(shelf, 3)
    one = shelf.delivery(paths)
    paths[1].write_bytes(b"something else")
    with pytest.raises(WaterclockError) as refused:
        deliver(out, one)
    assert (refused.value.code, refused.value.what) == (
        "E383",
        f"inner/{paths[1].name} is not the file that was collected",
    )
    paths[1].unlink()
    with pytest.raises(WaterclockError) as refused:
        deliver(out, one)
    assert (refused.value.code, refused.value.what) == ("E383", f"inner/{paths[1].name} cannot be copied")
    assert copies(out) == {}


def _rotten(place: Path) -> None:
    stat = place.stat()
    content = bytearray(place.read_bytes())
    content[len(content) // 2] ^= 1
    place.write_bytes(content)
    os.utime(place, ns=(stat.st_atime_ns, stat.st_mtime_ns))


@pytest.mark.parametrize(
    ("harm", "said"),
    [
        (_rotten, "b.bin has other content: its SHA-256 is"),
        (Path.unlink, "b.bin is gone"),
        (lambda place: place.write_bytes(b"x"), "b.bin has 1 bytes, 9 were delivered"),
    ],
    ids=["one bit", "gone", "cut off"],
)
def test_a_copy_that_was_harmed_is_found_and_brought_again(
    out: PublishedFolder, shelf: Shelf, harm: Callable[[Path], object], said: str
) -> None:
    paths = [shelf.file("a.bin", b"the first"), shelf.file("b.bin", b"the other")]
    deliver(out, shelf.delivery(paths))
    harm(out.folder / "copy" / "b.bin")
    assert (lost(out) or "").startswith(said)
    deliver(out, shelf.delivery(paths, claim=2))  # as `recompute` does
    assert copies(out) == wanted(shelf, paths)
    assert lost(out, 2) is None


def test_a_foreign_file_at_the_destination_is_not_overwritten(out: PublishedFolder, shelf: Shelf) -> None:
    place = out.folder / "copy" / "a.bin"
    place.parent.mkdir(parents=True)
    place.write_bytes(b"theirs")
    with pytest.raises(WaterclockError) as refused:
        deliver(out, shelf.delivery([shelf.file("a.bin", b"ours")]))
    assert (refused.value.code, place.read_bytes()) == ("E820", b"theirs")


def test_a_label_without_files_is_delivered(out: PublishedFolder, shelf: Shelf) -> None:
    (done,) = deliver(out, shelf.delivery([]))
    assert (done.outcome, done.rows, copies(out)) == (DeliveryOutcome.DELIVERED, 0, {})
    assert lost(out) is None


def test_options_that_a_copy_has_no_use_for_are_refused() -> None:
    assert CAPABILITIES.wrong_options is not None
    found = [
        [(wrong.code, wrong.option) for wrong in CAPABILITIES.wrong_options(what, options, "a.b")]
        for what, options in (
            ("collect", {"format": "raw", "settle": 3, "header": True}),
            ("publish", {"format": "raw", "keep": "all", "compression": "gzip"}),
            ("publish", {"format": "csv", "keep": "all"}),
        )
    ]
    assert found == [[("E334", "header")], [("E334", "compression")], [("E334", "keep")]]
