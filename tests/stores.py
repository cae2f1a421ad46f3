"""Systems under test in an object store: buckets of the tests' own S3 server."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from tests.s3 import server
from tests.systems import (
    HeldFolder,
    JsonFolder,
    KindFolder,
    LandingFolder,
    ParquetFolder,
    PublishedFolder,
    TimedFolder,
)
from waterclock.files.filesystem import entry_path, remove_folder
from waterclock.files.object_stores import register_bucket


def fresh_bucket() -> str:
    """Return the URL of an empty, registered bucket."""
    url = f"s3://{server().new_bucket()}"
    register_bucket(url, server().options())
    return url


def placed(system: LandingFolder, landing: str, archive: str) -> None:
    """Move a landing folder, its archive, or both to a bucket: `s3`, or else `local`."""
    url = fresh_bucket()
    if landing == "s3":
        system.source = entry_path(url, "in coming", "shop", "orders")
        said = {"path": f"{url}/in coming", **server().options()}
        system.setting = replace(system.setting, options=said)
    if archive == "s3":
        system.setting = replace(system.setting, archive=entry_path(url, "storage", "archive"))


PLACES = [("s3", "s3"), ("s3", "local"), ("local", "s3")]


class LandingBucket(LandingFolder):
    """A landing folder whose source, archive or both are in a bucket."""

    def __init__(self, folder: Path, landing: str = "s3", archive: str = "s3", **options: Any) -> None:
        super().__init__(folder, **options)
        placed(self, landing, archive)


class JsonBucket(JsonFolder):
    """The same in JSON lines."""

    def __init__(self, folder: Path, landing: str = "s3", archive: str = "s3", **options: Any) -> None:
        super().__init__(folder, **options)
        placed(self, landing, archive)


class ParquetBucket(ParquetFolder):
    """The same in Parquet."""

    def __init__(self, folder: Path, landing: str = "s3", archive: str = "s3", **options: Any) -> None:
        super().__init__(folder, **options)
        placed(self, landing, archive)


class KindBucket(KindFolder):
    """The same in a file format that needs a library, or options."""

    def __init__(self, folder: Path, kind: str, landing: str = "s3", archive: str = "s3") -> None:
        super().__init__(folder, kind)
        placed(self, landing, archive)


class TimedBucket(TimedFolder):
    """A landing folder in a bucket, whose rows have a time."""

    def __init__(self, folder: Path, zone: str | None) -> None:
        super().__init__(folder, zone)
        placed(self.inner, "s3", "s3")
        self.setting = self.inner.setting


class HeldBucket(HeldFolder):
    """A landing folder in a bucket that receives a newer file with all rows each time."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        placed(self.inner, "s3", "s3")
        self.setting = self.inner.setting

    def remove(self) -> None:
        remove_folder(self.inner.source)


class PublishedBucket(PublishedFolder):
    """A folder of a bucket as a destination."""

    def __init__(self, folder: Path, **options: Any) -> None:
        super().__init__(folder, **options)
        url = fresh_bucket()
        self.folder = entry_path(url, "out put")
        self.setting = replace(self.setting, options={"path": str(self.folder), **server().options()})
