"""The base classes of all JSON answers, and the types of their fields.

An answer is immutable. It is built from keyword arguments or from the attributes of a result; an unknown field is an
error. The docstring of a field is its description in the reference and in /openapi.json.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, date, datetime, timedelta
from typing import Annotated, Any, Self

from pydantic import AliasPath, BaseModel, BeforeValidator, ConfigDict, Field

from waterclock.json_models.version import JSON_VERSION
from waterclock.timelabel.label import label_of


def read_from(path: str) -> Any:
    """Declare the path of the attribute that a field is read from, such as `window.label`."""
    return Field(validation_alias=AliasPath(*path.split(".")))


def only_if_set() -> Any:
    """Declare a field that is left out of the JSON if its value is None."""
    return Field(default=None, exclude_if=lambda value: value is None)


def _instant_text(value: Any) -> Any:
    if not isinstance(value, datetime):
        return value
    return value.astimezone(UTC).isoformat().replace("+00:00", "Z")


def _second_text(value: Any) -> Any:
    return f"{value:%Y-%m-%dT%H:%M:%SZ}" if isinstance(value, datetime) else value


def _json_value(value: Any) -> Any:
    if value is None or isinstance(value, str | int | float):
        return value
    if isinstance(value, Mapping):
        return {str(name): _json_value(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_json_value(inner) for inner in value]
    if isinstance(value, datetime):
        return _instant_text(value) if value.tzinfo else value.isoformat()
    return value.isoformat() if isinstance(value, date) else str(value)


def _label_text(value: Any) -> Any:
    return label_of(value) if isinstance(value, datetime) else value


def _to_seconds(value: Any) -> Any:
    return value.total_seconds() if isinstance(value, timedelta) else value


def _to_rounded_seconds(value: Any) -> Any:
    seconds = _to_seconds(value)
    return round(seconds, 3) if isinstance(seconds, float) else seconds


def _empty_to_none(value: Any) -> Any:
    return value or None


Instant = Annotated[str, BeforeValidator(_instant_text)]
InstantToSecond = Annotated[str, BeforeValidator(_second_text)]
Label = Annotated[str, BeforeValidator(_label_text)]
Seconds = Annotated[float, BeforeValidator(_to_seconds)]
RoundedSeconds = Annotated[float, BeforeValidator(_to_rounded_seconds)]
Text = Annotated[str, BeforeValidator(str)]
TextOrNull = Annotated[str | None, BeforeValidator(_empty_to_none)]
"""A text; an empty one is null."""

JsonValue = Annotated[Any, BeforeValidator(_json_value)]
"""Any value. A value of a type that JSON does not have becomes its text."""
SortedTexts = Annotated[list[str], BeforeValidator(sorted)]


class _Attributes:
    """The attributes of an object, with other values for some of them."""

    def __init__(self, source: object, others: Mapping[str, Any]) -> None:
        self.__dict__.update(others, _source=source)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._source, name)


class AnswerPart(BaseModel):
    """Base class of the JSON objects in an answer."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        from_attributes=True,
        validate_by_name=True,
        validate_by_alias=True,
        serialize_by_alias=True,
        use_attribute_docstrings=True,
    )

    @classmethod
    def build(cls, source: object = None, /, **parts: Any) -> Self:
        """Build the object from keyword arguments and, for the other fields, from the attributes of `source`.

        Each value is converted to the declared type of its field.
        """
        return cls.model_validate(parts if source is None else _Attributes(source, parts))

    def to_json(self) -> dict[str, Any]:
        """Return the fields as a dictionary for JSON."""
        return self.model_dump(mode="json")


class Answer(AnswerPart):
    """Base class of the complete JSON answer of a command."""

    version: int = JSON_VERSION
    """Raised if a key is removed or changes its meaning."""

    def to_json(self) -> dict[str, Any]:
        """Return the fields except `version` as a dictionary for JSON."""
        return self.model_dump(mode="json", exclude={"version"})


class OneError(AnswerPart):
    """An error, as the command line shows it."""

    code: str
    """A code such as `E511`, or the HTTP status of an address without a page."""
    what: str
    where: str | None
    why: str | None
    fix: str | None
    excerpt: str | None
    transient: bool = False
    """Whether a retry may help."""
    errors: list[OneError] | None = only_if_set()
    """The single errors, if `what` stands for several errors of a project."""


class ErrorAnswer(Answer):
    """JSON output of a command that failed: the error that ended it."""

    error: OneError
