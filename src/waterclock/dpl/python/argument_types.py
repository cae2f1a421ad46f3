"""Defines the types of the arguments of the functions that declare statements in Python."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypedDict

from waterclock.flow.declarations import Secret

Texts = str | Sequence[str]
OptionValue = str | int | float | bool | Secret


class DescribedArguments(TypedDict, total=False):
    """Arguments of all statements except functions."""

    owner: str | None
    tags: Texts | None
    comment: str | None


class TimedArguments(DescribedArguments, total=False):
    """Arguments of all statements that have batches."""

    every: str | None
    schedule: str | None
    delay: str | None
    zone: str | None
    start: str | None
    mode: str | None
    expect: Texts | None
    measure: Texts | None
    sequential: bool
    pool: str | None
    on_restate: str | None
    deadline: str | None
    runtime: str | None
    columns: str | None


class DecoratedFunction(TimedArguments, total=False):
    """Arguments of `collect` and `transform`."""

    partitioned: bool
    regular: bool
    retain: str | None
    watermark: str | None
    compatible: str | None
    was: str | None
    keep_versions: str | None
    sort_by: Texts | None
    cluster_by: Texts | None
    partition_by: Texts | None
    bucket_by: str | None


class ConnectionArguments(DescribedArguments, total=False):
    """Arguments of `connection`."""

    type: str
    options: Mapping[str, OptionValue] | str | None


class ViewArguments(DescribedArguments, total=False):
    """Arguments of `view`."""

    columns: str | None
    shared: bool
    as_: str


class CollectArguments(DecoratedFunction, total=False):
    """Arguments of `collect`."""

    from_: str
    options: Mapping[str, OptionValue] | str | None
    for_each: str | None
    by: str | None
    await_: str | None
    on_schema_change: str | None
    continuous: str | None


class TransformArguments(DecoratedFunction, total=False):
    """Arguments of `transform`."""

    partial_after: str | None
    close_when: str | None
    max_lateness: str | None
    shuffle: str | None
    apart: str | None
    continuous: bool
    options: Mapping[str, OptionValue] | str | None
    as_: str | None
    when: Sequence[tuple[str, str]] | None


class StatefulArguments(TimedArguments, total=False):
    """Keyword arguments of `stateful` besides `rows`, `state` and `key`."""

    state_columns: str | None
    was: str | None
    state_was: str | None
    retain: str | None


class PublishArguments(TimedArguments, total=False):
    """Arguments of `publish`."""

    to: str
    options: Mapping[str, OptionValue] | str | None


class FunctionArguments(TypedDict, total=False):
    """Arguments of `function`."""

    parameters: str | None
    returns: str | None
    return_: str | None


class GrantArguments(TypedDict, total=False):
    """Arguments of `grant`."""

    on: str
    to: str
    columns: str | None
    where: str | None
