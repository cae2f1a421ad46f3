"""The object stores that this process reaches, each bucket with the options it is reached by.

Nothing of a store is loaded or touched before something in it is asked for. delta-rs, obstore and Spark are given the
same options, so that all three see the same bucket.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping
from datetime import timedelta
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from waterclock.errors import WaterclockError, did_you_mean

if TYPE_CHECKING:
    from obstore.store import ObjectStore

# that can put a file only where none is, by obstore and by delta-rs
SCHEMES = ("s3", "gs", "abfss")
OPTIONS = ("endpoint", "region", "access_key_id", "secret_access_key", "session_token", "virtual_hosted_style_request")
# a store that is away is waited for that long; then what was asked fails, and the batch is tried again later
_PATIENCE = timedelta(seconds=60)
_CONNECT, _ANSWER = timedelta(seconds=5), timedelta(seconds=30)
_stores: dict[str, Store] = {}
_lock = threading.Lock()


class Store:
    """A bucket (`s3://lake`) and the `OPTIONS` it is reached by; what they leave out the environment says."""

    def __init__(self, bucket: str, options: Mapping[str, str]) -> None:
        self.bucket = bucket
        self.options = dict(options)

    @property
    def for_delta(self) -> dict[str, str]:
        """The options as delta-rs takes them."""
        patience = {"retry_timeout": f"{_PATIENCE.seconds}s", "connect_timeout": f"{_CONNECT.seconds}s"}
        if not self.bucket.startswith("s3:"):
            return patience
        plain = {"aws_allow_http": "true"} if self._is_plain_http else {}
        return {f"aws_{key}": value for key, value in self.options.items()} | plain | patience

    @property
    def for_obstore(self) -> dict[str, Any]:
        """The options as obstore, and its file system for fsspec, take them."""
        return {
            "config": dict(self.options),
            "client_options": {"allow_http": self._is_plain_http, "connect_timeout": _CONNECT, "timeout": _ANSWER},
            "retry_config": {"retry_timeout": _PATIENCE, "max_retries": 8},
        }

    @cached_property
    def objects(self) -> ObjectStore:
        """The store itself, for what fsspec has no words for."""
        from obstore.store import from_url

        return from_url(self.bucket, **self.for_obstore)

    @property
    def _is_plain_http(self) -> bool:
        return (self.options.get("endpoint") or os.environ.get("AWS_ENDPOINT_URL", "")).startswith("http:")


def is_remote(folder: str | Path) -> bool:
    """Tell whether a folder or path lies in an object store."""
    return "://" in str(folder)


def reach_by(url: str, options: Mapping[str, str]) -> None:
    """Have everything in the bucket of a URL be reached by these options from now on; touches nothing.

    Raises  E607 for a scheme that is no known object store's
            E608 for an option that is none
    """
    bucket = bucket_of(url)
    unknown = sorted(options.keys() - set(OPTIONS))
    if unknown:
        raise WaterclockError(
            "E608",
            f"{unknown[0]!r} is no option of an object store",
            where=url,
            why=f"there are {', '.join(OPTIONS)}",
            fix=did_you_mean(unknown[0], OPTIONS, otherwise="leave it out"),
        )
    with _lock:
        if bucket not in _stores or _stores[bucket].options != options:
            _stores[bucket] = Store(bucket, options)


def bucket_of(url: str) -> str:
    """Return the scheme and bucket of a URL: `s3://lake` of `s3://lake/flights`.

    Raises  E607 for a scheme that is no known object store's, or a URL without a bucket
    """
    parts = urlsplit(url)
    if parts.scheme in SCHEMES and parts.netloc:
        return f"{parts.scheme}://{parts.netloc}"
    raise WaterclockError(
        "E607",
        f"{parts.scheme}:// is no storage that is known" if parts.netloc else "the URL names no bucket",
        where=url,
        why="what rests lies in a folder of this machine, or below "
        f"{', '.join(f'{scheme}://' for scheme in SCHEMES)}, where a file can be put only if it is absent",
        fix=did_you_mean(parts.scheme, SCHEMES, otherwise="name one of these, or a folder of this machine"),
    )


def store_of(folder: str | Path) -> Store | None:
    """Return the object store that a folder lies in; None for one of this machine.

    Raises  E607 for a URL that is no known store's
    """
    if not is_remote(folder):
        return None
    bucket = bucket_of(str(folder))
    with _lock:
        return _stores.setdefault(bucket, Store(bucket, {}))


def delta_options(folder: str) -> dict[str, str] | None:
    """Return the options by which delta-rs reaches a table; None on this machine."""
    store = store_of(folder)
    return None if store is None else store.for_delta
