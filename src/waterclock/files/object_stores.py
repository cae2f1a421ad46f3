"""Registers the object stores that this process uses, and the connection options of each bucket.

No library is loaded and no store is contacted before its first use. delta-rs, obstore and Spark get the same options,
so that all three access the same bucket.
"""

from __future__ import annotations

import importlib.util
import os
import re
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from waterclock.errors import WaterclockError
from waterclock.extras import extra_install_command
from waterclock.similar_names import did_you_mean

if TYPE_CHECKING:
    from obstore.store import ObjectStore

# stores that support put-if-absent, by obstore and by delta-rs
SCHEMES = ("s3", "gs", "abfss")
OPTIONS = ("endpoint", "region", "access_key_id", "secret_access_key", "session_token", "virtual_hosted_style_request")
# the time to wait for an unavailable store; then the request fails, and the batch is retried later
_RETRY_TIMEOUT = timedelta(seconds=60)
_CONNECT_TIMEOUT, _REQUEST_TIMEOUT, _BIG_COPY_TIMEOUT = (
    timedelta(seconds=5),
    timedelta(seconds=30),
    timedelta(minutes=10),
)
_INSTANCE_METADATA_URL = "http://169.254.169.254/"  # where cloud machines get their own credentials
_DENIAL_TEXTS = (
    *("403 Forbidden", "401 Unauthorized", "AccessDenied", "InvalidAccessKeyId", "SignatureDoesNotMatch"),
    *("ExpiredToken", "InvalidToken", "XAdminUserNotFound"),
)
_DENIAL_ERRORS = ("PermissionDeniedError", "UnauthenticatedError")
# S3 reports a body that arrived too slowly by 400 RequestTimeout
_NO_ANSWER = re.compile(
    r"error sending request|HTTP error|timed out|status code: (?:429|5\d\d)|<Code>RequestTimeout</Code>"
)
# errors of Hadoop's S3A in the JVM: from its AWS client, and for a body that ended too soon
_NO_ANSWER_IN_JVM = re.compile(
    r"Unable to execute HTTP request[^\n(]*|[^\n(]*Status Code: (?:429|5\d\d)|NoHttpResponseException"
    r"|Premature end of Content-Length"
)
# obstore refuses to list an object whose path has an empty part or control characters; other programs may write one
_INVALID_PATH = re.compile(r'object with invalid path: (?:Error parsing )?Path "(.*?)"(?:: | contained)', re.DOTALL)
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_STORE_MESSAGE = re.compile(r"<Message>(.*?)</Message>", re.DOTALL)
_stores: dict[str, Store] = {}
_lock = threading.Lock()


class Store:
    """A bucket such as `s3://lake`, with its connection options. Environment variables provide missing options."""

    def __init__(self, bucket: str, options: Mapping[str, str]) -> None:
        self.bucket = bucket
        self.options = dict(options)

    @property
    def scheme(self) -> str:
        """The scheme of the store, such as `s3`."""
        return self.bucket.partition(":")[0]

    @property
    def for_delta(self) -> dict[str, str]:
        """The options in the form that delta-rs uses."""
        patience = {"retry_timeout": f"{_RETRY_TIMEOUT.seconds}s", "connect_timeout": f"{_CONNECT_TIMEOUT.seconds}s"}
        if self.scheme != "s3":
            return patience
        plain = {"aws_allow_http": "true"} if self._is_plain_http else {}
        return {f"aws_{key}": value for key, value in self.options.items()} | plain | patience

    @cached_property
    def objects_for_big_copies(self) -> ObjectStore:
        """The obstore object with a longer timeout, for copies of a gibibyte and more within the store."""
        options = self.for_obstore
        return self._connect(options | {"client_options": options["client_options"] | {"timeout": _BIG_COPY_TIMEOUT}})

    @property
    def for_obstore(self) -> dict[str, Any]:
        """The options in the form that obstore and its fsspec file system use."""
        # S3 copies to an absent path by a multipart upload; the environment can set another way for other stores
        known = {"copy_if_not_exists": os.environ.get("AWS_COPY_IF_NOT_EXISTS", "multipart")}
        return {
            "config": self.options | (known if self.scheme == "s3" else {}),
            "client_options": {
                "allow_http": self._is_plain_http,
                "connect_timeout": _CONNECT_TIMEOUT,
                "timeout": _REQUEST_TIMEOUT,
            },
            "retry_config": {"retry_timeout": _RETRY_TIMEOUT, "max_retries": 8},
        }

    @cached_property
    def objects(self) -> ObjectStore:
        """The obstore object of the store, for operations that fsspec does not have. Raises E609 for an invalid URL."""
        return self._connect(self.for_obstore)

    def _connect(self, options: dict[str, Any]) -> ObjectStore:
        from obstore.store import from_url

        with translate_store_errors(self.bucket):
            return from_url(self.bucket, **options)

    @property
    def _is_plain_http(self) -> bool:
        return (self.options.get("endpoint") or os.environ.get("AWS_ENDPOINT_URL", "")).startswith("http:")


def is_remote(folder: str | Path) -> bool:
    """Return whether a folder or path is in an object store."""
    return "://" in str(folder)


def register_bucket(url: str, options: Mapping[str, str]) -> None:
    """Register the connection options of a URL's bucket, without contacting the store.

    Raises E607 for an invalid URL, E608 for an unknown option, E609 for an invalid endpoint or a missing library.
    """
    bucket = bucket_of(url)
    unknown = sorted(options.keys() - set(options_of(url)))
    if unknown:
        raise unknown_option_error(unknown[0], url)
    endpoint = options.get("endpoint")
    if endpoint is not None and not re.match(r"https?://[^/]", endpoint):
        raise _unreachable_error(
            url, f"its endpoint {endpoint!r} is not a valid address", "write it as https://host:port"
        )
    require_libraries(url)
    with _lock:
        if bucket not in _stores or _stores[bucket].options != options:
            _stores[bucket] = Store(bucket, options)


def options_of(url: str) -> tuple[str, ...]:
    """Return the valid options for a URL's store. Stores other than S3 are configured by their environment."""
    return () if url.startswith(("gs:", "abfss:")) else OPTIONS


def unknown_option_error(name: str, url: str) -> WaterclockError:
    """Return the error for an option that a URL's store does not have."""
    known = options_of(url)
    return WaterclockError(
        "E608",
        f"{name!r} is not an option of an object store",
        where=url,
        why=f"the options are {', '.join(known)}" if known else "environment variables configure this store",
        fix=did_you_mean(name, known, otherwise="leave it out"),
    )


def bucket_of(url: str) -> str:
    """Return the scheme and bucket of a URL, such as `s3://lake` for `s3://lake/flights`.

    Raises E607 for an unsupported scheme, and for a URL without a bucket or with a user, a password or a port.
    """
    scheme, _, rest = url.partition("://")
    bucket = re.split(r"[/?#]", rest, maxsplit=1)[0]
    account, _, host = bucket.rpartition("@")
    if scheme in SCHEMES and (":" in bucket or (account and scheme != "abfss")):  # abfss://container@account
        raise WaterclockError(
            "E607",
            "the URL of a storage has a user, a password or a port",
            where=f"{scheme}://{host}",
            why="it contains only the bucket and the folder; a password in it would appear in plans and in logs",
            fix="write s3://bucket/folder, and name the secrets: access_key_id and secret_access_key; an address of "
            "your own store is the option endpoint",
        )
    if scheme in SCHEMES and bucket:  # no library supports `S3://`
        return f"{scheme}://{bucket}"
    raise WaterclockError(
        "E607",
        f"{scheme}:// is not a supported storage" if bucket else "the URL names no bucket",
        where=f"{scheme}://{host}" if account else url,
        why="the storage is a folder of this machine, or below "
        f"{', '.join(f'{scheme}://' for scheme in SCHEMES)}, where a file can be created only if it is absent",
        fix="name a bucket: s3://bucket/folder"
        if not bucket
        else did_you_mean(scheme, SCHEMES, otherwise=_suggest_scheme(scheme))
        or "use one of these, or a folder of this machine",
    )


def _suggest_scheme(scheme: str) -> str | None:
    """Suggest the scheme that differs by one letter. Similarity search does not work for names this short."""
    near = [known for known in SCHEMES if len(known) == len(scheme) and sum(map(str.__ne__, known, scheme)) == 1]
    return f"did you mean {near[0]}?" if near else None


def require_libraries(url: str) -> None:
    """Raise E609 if the libraries for object stores are not installed, and name the extra that installs them."""
    missing = [name for name in ("obstore", "upath") if importlib.util.find_spec(name) is None]
    if missing:
        raise WaterclockError(
            "E609",
            "object storage needs libraries that are not installed",
            where=url,
            why=f"there is no {' and no '.join(missing)}",
            fix=f"install them: {extra_install_command('objects')}",
        )


def store_of(folder: str | Path) -> Store | None:
    """Return the object store of a folder; None for a local folder. Raises E607 for an unsupported URL."""
    if not is_remote(folder):
        return None
    bucket = bucket_of(str(folder))
    with _lock:
        if bucket not in _stores:
            require_libraries(str(folder))
            _stores[bucket] = Store(bucket, {})
        return _stores[bucket]


def delta_options(folder: str) -> dict[str, str] | None:
    """Return the options with which delta-rs accesses a table; None for a local table."""
    store = store_of(folder)
    return None if store is None else store.for_delta


@contextmanager
def translate_store_errors(where: str | Path) -> Iterator[None]:
    """Convert an object store's errors to E609 (transient if it does not respond) or E807, except FileNotFoundError."""
    try:
        yield
    except Exception as error:
        refusal = translate_obstore_error(error, str(where))
        if refusal is None:
            raise
        raise refusal from error


def translate_obstore_error(error: BaseException, where: str) -> WaterclockError | None:
    """Convert an error that the store caused to E609, or to E807 if an object's name caused it; None for other errors.

    It also returns None for errors that callers handle: a file that is missing, or that exists already.
    """
    text = str(error)
    if not _is_store_error(error, text):
        return None
    named = _INVALID_PATH.search(text)
    return _build_store_error(error, text, where) if named is None else _unusable_name_error(where, named[1])


def _build_store_error(error: BaseException, text: str, where: str) -> WaterclockError:
    message = _extract_message(text)
    if "NoSuchBucket" in text:
        return _unreachable_error(where, "it has no such bucket", "create the bucket, or correct the URL")
    if _INSTANCE_METADATA_URL in text:
        fix = "set access_key_id and secret_access_key, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
        return _unreachable_error(where, "no credentials are set, and this machine has none of its own", fix)
    if any(sign in text for sign in _DENIAL_TEXTS) or type(error).__name__ in _DENIAL_ERRORS:
        has_wrong_clock = "RequestTimeTooSkewed" in text
        fix = "correct the credentials, or allow their user to read and write there"
        fix = "set this machine's clock, or the store's" if has_wrong_clock else fix
        return _unreachable_error(where, f"it refuses this user: {message}", fix)
    if isinstance(error, ValueError) or type(error).__name__ == "InvalidPathError":
        fix = "give the object another name: without control characters, and without an empty part between slashes"
        return _unreachable_error(where, f"a name in it cannot be used: {message}", fix)
    is_unanswered = _NO_ANSWER.search(text) is not None
    fix = "check that it runs, and that the endpoint and the region are right"
    return _unreachable_error(
        where, f"it does not answer: {message}" if is_unanswered else message, fix, transient=is_unanswered
    )


def store_error_from_spark(text: str, where: str) -> WaterclockError | None:
    """Return E609 if Spark's error message shows that a store did not answer or closed the connection; else None."""
    found = _NO_ANSWER_IN_JVM.search(text)
    fix = "check that it runs, and that the endpoint and the region are right"
    return found and _unreachable_error(where, f"it does not answer Spark: {found[0].strip()}", fix, transient=True)


def wrong_response_error(where: str, why: str, *, transient: bool = False) -> WaterclockError:
    """Return the error for a response that contradicts the request or itself, such as a listing without an end."""
    fix = "check that the endpoint is one of an object store; it, or a proxy in front of it, responds incorrectly"
    return _unreachable_error(where, why, fix, transient=transient)


def _unusable_name_error(where: str, key: str) -> WaterclockError:
    """Return the error for an object whose name prevents reading it and listing its folder."""
    store = "/".join(where.split("/")[:3])
    return WaterclockError(
        "E807",
        "an object has a name that cannot be used",
        where=f"{store}/{_CONTROL.sub(lambda found: repr(found[0])[1:-1], key)}",
        why=f"names have no control characters and no empty part between slashes; it prevents the listing of {where}",
        fix="give the object another name, or remove it",
    )


def _is_store_error(error: BaseException, text: str) -> bool:
    if isinstance(error, FileNotFoundError):  # of an object, or of its bucket
        return "NoSuchBucket" in text or any(sign in text for sign in _DENIAL_TEXTS)
    if isinstance(error, OSError):  # the error type of obstore's writer
        return "Error performing" in text
    if isinstance(error, ValueError):
        return text.startswith("Could not parse path")
    from obstore.exceptions import AlreadyExistsError, BaseError, PreconditionError

    return isinstance(error, BaseError) and not isinstance(error, AlreadyExistsError | PreconditionError)


def _extract_message(text: str) -> str:
    """Extract a store's own message from an error, without addresses, signatures and retries."""
    found = _STORE_MESSAGE.search(text)
    return found[1].strip() if found else text.partition("\n")[0].rpartition(" - ")[2].strip(" :")


def _unreachable_error(where: str, why: str, fix: str, *, transient: bool = False) -> WaterclockError:
    return WaterclockError(
        "E609", "the object store cannot be reached", where=where, why=why, fix=fix, transient=transient
    )
