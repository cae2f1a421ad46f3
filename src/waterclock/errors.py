"""Defines `WaterclockError`, the base class of all errors. Each states what failed, where, why, and how to fix it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from waterclock.printable import printable, printable_line

_MOST_CHARACTERS = 20_000  # maximum length of one part of an error, in characters
_READING = "it was reading "
_MOST_NAMED = 5


@dataclass(frozen=True, slots=True)
class Code:
    """The title and the explanation of an error code."""

    title: str
    text: str


def causes_of(error: BaseException) -> Iterator[BaseException]:
    """Yield an error and then the errors that caused it, each once. The chain of causes may contain a cycle."""
    seen: set[int] = set()
    cause: BaseException | None = error
    while cause is not None and id(cause) not in seen:
        seen.add(id(cause))
        yield cause
        cause = cause.__cause__ or (None if cause.__suppress_context__ else cause.__context__)


def note_inputs(error: BaseException, names: Iterable[str]) -> None:
    """Add a note with the inputs that were read to an exception that may not name them, such as the end of the JVM."""
    every = sorted(set(names))
    if every and noted_inputs(error) is None:
        further = f" and {len(every) - _MOST_NAMED} more" if len(every) > _MOST_NAMED else ""
        error.add_note(f"{_READING}{', '.join(every[:_MOST_NAMED])}{further}")


def noted_inputs(error: BaseException) -> str | None:
    """Return the note of `note_inputs`, such as `it was reading a.csv.gz`; None if there is none."""
    return next((note for note in getattr(error, "__notes__", ()) if note.startswith(_READING)), None)


class WaterclockError(Exception):
    """An error with a stable code that states what failed, where, why, and how to fix it.

    `where` is `file:line:col`, `table@timelabel` or a path. `excerpt` contains the user's source line and carets below
    it. `transient` means that the same work may succeed when it is tried again.
    """

    def __init__(
        self,
        code: str,
        what: str,
        *,
        where: str | None = None,
        why: str | None = None,
        fix: str | None = None,
        excerpt: str | None = None,
        transient: bool = False,
    ) -> None:
        super().__init__(what)
        self.code = code
        self.what = what
        self.where = where
        self.why = why
        self.fix = fix
        self.excerpt = excerpt
        self.transient = transient

    def __str__(self) -> str:
        return self.render()

    def __reduce__(self) -> tuple[Any, ...]:
        return (_rebuild, (type(self), self.to_dict()))

    def render(self) -> str:
        """Return the error as plain text, with each part on its own line and control characters escaped.

        Line breaks in `what` and `where` are escaped. Further lines of `why` and `fix` are indented, so that a server's
        message cannot imitate another part.
        """
        lines = [f"{self.code} {printable_line(_shorten(self.what))}"]
        for name, text in self.parts():
            if name == "excerpt":
                lines += [f"  {line}" for line in text.splitlines()]
            elif name == "where":
                lines.append(f"  {printable_line(text)}")
            else:
                lines.append(f"{name}  {indent_further_lines(text)}")
        return printable("\n".join(lines))

    def parts(self) -> Iterator[tuple[str, str]]:
        """Yield the name and the text of each part that is set, in the order where, excerpt, why, fix.

        Texts are cut off at 20,000 characters, because a server may send a message of any length.
        """
        for name, text in (("where", self.where), ("excerpt", self.excerpt), ("why", self.why), ("fix", self.fix)):
            if text:
                yield name, _shorten(text)

    def to_dict(self) -> dict[str, Any]:
        """Return the parts of the error as a dictionary for JSON. Missing parts are None."""
        return {
            "code": self.code,
            "what": self.what,
            "where": self.where,
            "why": self.why,
            "fix": self.fix,
            "excerpt": self.excerpt,
            "transient": self.transient,
        }

    def at(self, where: str) -> WaterclockError:
        """Set `where` unless the error has one already, and return the error itself."""
        if self.where is None:
            self.where = where
        return self

    def forget_frames(self) -> None:
        """Remove the traceback, cause and context, whose stack frames keep all local variables in memory."""
        self.__traceback__ = self.__cause__ = self.__context__ = None


class ProjectErrors(WaterclockError):
    """An error that collects all errors of a project, to report them together. No batch of the project can run."""

    def __init__(self, errors: Iterable[WaterclockError]) -> None:
        self.errors = tuple(errors)
        count = len(self.errors)
        super().__init__("E200", f"{count} error{'s' if count != 1 else ''} in the project")

    def __reduce__(self) -> tuple[Any, ...]:
        return (type(self), (self.errors,))

    def render(self) -> str:
        """Return every error as plain text, with a blank line between them."""
        return "\n\n".join(error.render() for error in self.errors)

    def to_dict(self) -> dict[str, Any]:
        """Return the summary as a dictionary for JSON, with all errors in `errors`."""
        return super().to_dict() | {"errors": [error.to_dict() for error in self.errors]}


def indent_further_lines(text: str) -> str:
    """Indent all lines of a text but the first."""
    return "\n     ".join(text.splitlines())


def _shorten(text: str) -> str:
    if len(text) <= _MOST_CHARACTERS:
        return text
    return f"{text[:_MOST_CHARACTERS]}… ({len(text):,} characters, cut off)"


def rendered_parts(text: str) -> dict[str, str]:
    """Split an error's text, as `render` formats it, into what (with the code), where, why and fix; "" if missing."""
    found = {"what": "", "where": "", "why": "", "fix": ""}
    for line in text.splitlines():
        if line.startswith(("why  ", "fix  ")):
            found[line[:3]] = line[5:].strip()
        elif not found["what"]:
            found["what"] = line.strip()
        elif line.startswith("  ") and not (found["where"] or found["why"] or found["fix"]):
            found["where"] = line.strip()
    return found


def _rebuild(kind: type[WaterclockError], parts: dict[str, Any]) -> WaterclockError:
    error = kind.__new__(kind)
    WaterclockError.__init__(error, parts.pop("code"), parts.pop("what"), **parts)
    return error


def raise_all(errors: Sequence[WaterclockError]) -> None:
    """Raise collected errors, if there are any: a single error as itself, several as ProjectErrors."""
    if errors:
        raise errors[0] if len(errors) == 1 else ProjectErrors(errors)
