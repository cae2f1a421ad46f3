"""Checks the bucket URLs of `files` connections, and that the options for each bucket are the same everywhere."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from waterclock.dpl.config.model import Config
from waterclock.dpl.config.secret_setting import SecretSetting
from waterclock.dpl.syntax.source_text import Span
from waterclock.errors import WaterclockError
from waterclock.files.object_stores import OPTIONS, bucket_of, is_remote, options_of, unknown_option_error
from waterclock.flow.declarations import Connection, Secret

_URLS = ("path", "archive")
SpanOf = Callable[[str, str], Span]


@dataclass(frozen=True, slots=True)
class _BucketAccess:
    """The options to access a bucket. `by` names the connection or storage that declares them, at `span`."""

    bucket: str
    options: Mapping[str, str | Secret]
    by: str
    span: Span


def check_buckets(connections: Iterable[Connection], config: Config, span_of: SpanOf) -> Iterator[WaterclockError]:
    """Yield errors for URLs of unknown stores, unsupported options, and different options for one bucket.

    A connection without options uses the options that another connection declares for the same bucket. `span_of`
    returns the span of a connection's option.
    """
    known: dict[str, _BucketAccess] = {access.bucket: access for access in _storage_access(config)}
    for connection in connections:
        options = {name: _text(connection.options[name]) for name in OPTIONS if name in connection.options}
        for key in _URLS:
            url = str(connection.options.get(key) or "")
            if not is_remote(url):
                continue
            span = span_of(connection.name, key)
            try:
                access = _BucketAccess(bucket_of(url), options, f"connection {connection.name}", span)
            except WaterclockError as error:
                yield span.locate_error(error)
                continue
            if wrong := next((name for name in options if name not in options_of(url)), None):
                yield span_of(connection.name, wrong).locate_error(unknown_option_error(wrong, url))
            elif options and (other := known.setdefault(access.bucket, access)).options != options:
                yield _different_options_error(access, other)


def _storage_access(config: Config) -> Iterator[_BucketAccess]:
    """Yield the options of the storage's bucket, if it has any; another check reports errors in them."""
    storage, options = config.environment.storage, config.environment.storage_options
    if not is_remote(storage) or not options:
        return
    texts = {
        name: Secret(value.secret) if isinstance(value, SecretSetting) else _text(value)
        for name, value in options.items()
    }
    try:
        yield _BucketAccess(
            bucket_of(storage), texts, "the storage", config.place(("env", config.env, "storage_options"))
        )
    except WaterclockError:
        return


def _different_options_error(access: _BucketAccess, other: _BucketAccess) -> WaterclockError:
    names = sorted(
        name for name in {*access.options, *other.options} if access.options.get(name) != other.options.get(name)
    )
    return access.span.refuse(
        "E223",
        f"{access.bucket} has two different configurations",
        why=f"{other.by} ({other.span.place}) has another {' and '.join(names)}, and a bucket has one configuration",
        fix="write the same options in both, or in only one: the other one uses them too",
    )


def _text(value: object) -> str | Secret:
    if isinstance(value, Secret):
        return value
    return str(value).lower() if isinstance(value, bool) else str(value)
