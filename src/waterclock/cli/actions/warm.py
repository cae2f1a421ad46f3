"""Writes an archive of Java classes, which makes later starts of Spark faster."""

from __future__ import annotations

from waterclock.cli.views.json import print_answer
from waterclock.cli.views.theme import console
from waterclock.engine.spark.class_archive import archive_file, write_archive


def ensure_archive(*, is_json: bool) -> None:
    """Write the archive of Java classes for Spark's start, unless it exists, and print its path.

    Raises E701 to E703 if Spark or Java cannot be used, E707.
    """
    path = archive_file()
    is_new = not path.is_file()
    if is_new:
        if not is_json:
            console().print("Spark starts once, and Java records the classes that it loads: a minute …", style="quiet")
        write_archive(path)
    size = path.stat().st_size
    if is_json:
        from waterclock.json_models.maintenance import WarmAnswer

        print_answer(WarmAnswer(archive=str(path), bytes=size, is_new=is_new))
        return
    words = "written" if is_new else "the archive exists already"
    console().print(f"{words}: {path}, {size // 1_000_000} MB; every run of this user uses it", soft_wrap=True)
