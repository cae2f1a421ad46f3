"""Refusals of object stores are reported as our errors. No server is used."""

from __future__ import annotations

from pathlib import Path

import obstore
import pytest
from obstore.exceptions import AlreadyExistsError, GenericError, InvalidPathError, PermissionDeniedError
from obstore.store import MemoryStore

from waterclock.connectors.windowing import file_key_of
from waterclock.errors import WaterclockError
from waterclock.files.filesystem import path_below
from waterclock.files.object_files import remove
from waterclock.files.object_stores import Store, bucket_of, store_of, translate_obstore_error, translate_store_errors

ASKED = "Generic S3 error: Error performing GET http://127.0.0.1:1/lake?list-type=2 in 1ms"
ANSWER = f"{ASKED} - Server returned non-2xx status code: "


def body(code: str, message: str) -> str:
    return (
        f'<?xml version="1.0"?>\n<Error><Code>{code}</Code><Message>{message}</Message><StringToSign>x</StringToSign>'
    )


@pytest.mark.parametrize(
    ("error", "why", "transient"),
    [
        (GenericError(f"{ANSWER}404 Not Found: {body('NoSuchBucket', 'No.')}"), "it has no such bucket", False),
        (FileNotFoundError(f"{ANSWER}404 Not Found: {body('NoSuchBucket', 'No.')}"), "it has no such bucket", False),
        (
            GenericError(f"{ANSWER}403 Forbidden: {body('SignatureDoesNotMatch', 'It does not match.')}"),
            "it refuses this user: It does not match.",
            False,
        ),
        (PermissionDeniedError("The operation lacked"), "it refuses this user: The operation lacked", False),
        (
            GenericError(f"{ASKED}, after 8 retries  - HTTP error: error sending request\n\nDebug source: x"),
            "it does not answer: HTTP error: error sending request",
            True,
        ),
        (GenericError(f"{ANSWER}503 Slow Down: {body('SlowDown', 'Later.')}"), "it does not answer: Later.", True),
        (
            GenericError("Generic S3 error: Error performing PUT http://169.254.169.254/latest/api/token in 2ms"),
            "no credentials are set, and this machine has none of its own",
            False,
        ),
        (InvalidPathError("a\tb"), "a name in it cannot be used: a\tb", False),
        (
            ValueError('Could not parse path: "a//b"'),
            'a name in it cannot be used: Could not parse path: "a//b"',
            False,
        ),
    ],
)
def test_a_store_error_is_reported_with_its_message_and_whether_it_is_transient(
    error: Exception, why: str, *, transient: bool
) -> None:
    refusal = translate_obstore_error(error, "s3://lake/new")
    assert refusal is not None
    assert (refusal.code, refusal.where, refusal.why, refusal.transient) == ("E609", "s3://lake/new", why, transient)
    assert "StringToSign" not in str(refusal)


@pytest.mark.parametrize(
    ("told", "where"),
    [
        ('Error parsing Path "new/a\nb.csv": Encountered illegal character sequence "\n"', "s3://lake/new/a\\nb.csv"),
        ('Path "new//b.csv" contained empty path segment', "s3://lake/new//b.csv"),
    ],
)
def test_an_object_that_a_listing_cannot_name_is_named(told: str, where: str) -> None:
    refusal = translate_obstore_error(
        InvalidPathError(f"Encountered object with invalid path: {told}\n\nDebug"), "s3://lake/new"
    )
    assert refusal is not None
    assert (refusal.code, refusal.where, refusal.transient) == ("E807", where, False)


@pytest.mark.parametrize(
    "error",
    [
        FileNotFoundError(f"{ANSWER}404 Not Found: {body('NoSuchKey', 'No.')}"),
        AlreadyExistsError("it is there"),
        ValueError("of something else"),
        WaterclockError("E604", "of ours"),
        OSError("of a disk"),
    ],
)
def test_errors_that_callers_handle_pass_unchanged(error: Exception) -> None:
    assert translate_obstore_error(error, "s3://lake/new") is None
    with pytest.raises(type(error)) as raised, translate_store_errors("s3://lake/new"):
        raise error
    assert raised.value is error


@pytest.mark.parametrize(
    ("path", "key"),
    [
        ("s3://lake/a b/c+d%20ü.csv", "s3://lake/a%20b/c+d%2520ü.csv"),
        ("s3://file/e.csv", "s3://file/e.csv"),
        ("/data/a b.csv", "data/a%20b.csv"),
        ("/file/1.csv", "file/1.csv"),
        ("/file/file1.csv", "file/file1.csv"),
    ],
)
def test_a_file_key_equals_the_path_that_spark_reports(path: str, key: str) -> None:
    assert file_key_of(path) == key


@pytest.mark.parametrize(
    ("path", "folder", "rest"),
    [
        ("s3://lake/new/a/b.csv", "s3://lake/new", "a/b.csv"),
        ("s3://lake/new2/a.csv", "s3://lake/new", None),
        ("s3://lake/a.csv", "s3://lake/", "a.csv"),
        ("/new/a.csv", "s3://lake/new", None),
        ("/new/a/b.csv", "/new", "a/b.csv"),
        ("/new2/b.csv", "/new", None),
    ],
)
def test_a_path_is_returned_relative_to_its_folder_or_as_none_outside_it(
    path: str, folder: str, rest: str | None
) -> None:
    from waterclock.files.filesystem import entry_path

    assert path_below(path, entry_path(folder) if "://" in folder else Path(folder)) == rest


@pytest.mark.parametrize("gone", [["a"], ["b"], ["a", "c"], ["a", "b", "c"]])
def test_objects_that_others_removed_do_not_prevent_the_removal_of_the_remaining_ones(
    gone: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A store may refuse to remove many objects because one is missing (versitygw does), and keep the others."""
    store = Store("memory://lake", {})
    store.objects = MemoryStore()
    for key in sorted({"a", "b", "c"} - set(gone)):
        obstore.put(store.objects, key, b"x")
    removes = obstore.delete

    def delete(objects: MemoryStore, keys: list[str]) -> None:
        missing = [key for key in keys if key in gone]
        if missing:
            message = "The specified key does not exist. (code: NoSuchKey)"
            raise GenericError(f"Generic S3 error: DeleteObjects request failed for key {missing[0]}: {message}")
        removes(objects, keys)

    monkeypatch.setattr(obstore, "delete", delete)
    remove(store, ["a", "b", "c"])
    assert [each["path"] for chunk in obstore.list(store.objects) for each in chunk] == []


@pytest.mark.parametrize(
    "url",
    [
        "s3://ann:CANARYLEAK@lake/x", "s3://CANARYLEAK@lake", "gs://CANARYLEAK@lake/x", "s3://ann:CANARY[LEAK@lake/x",
        "https://ann:CANARYLEAK@lake/x", "abfss://c:CANARYLEAK@a.dfs.core.windows.net/x", "abfss://c@d:CANARYLEAK@a.dfs.core.windows.net/x",
    ],
)  # fmt: skip
def test_a_url_with_a_password_is_refused_and_never_shown(url: str) -> None:
    with pytest.raises(WaterclockError, match="E607") as refused:
        bucket_of(url)
    assert "CANARY" not in str(refused.value)


@pytest.mark.parametrize(
    ("url", "bucket"),
    [("s3://lake/a:b@c", "s3://lake"), ("abfss://c@a.dfs.core.windows.net/x", "abfss://c@a.dfs.core.windows.net")],
)
def test_a_bucket_is_the_first_part_of_a_url(url: str, bucket: str) -> None:
    assert bucket_of(url) == bucket


def test_a_url_that_the_library_refuses_is_an_error_of_ours() -> None:
    store = store_of("abfss://c@evil.com/x")
    assert store is not None
    for connect in ("objects", "objects_for_big_copies"):
        with pytest.raises(WaterclockError, match="E609") as refused:
            getattr(store, connect)
        assert "Debug source" not in str(refused.value)
