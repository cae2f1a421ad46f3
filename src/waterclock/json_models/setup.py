"""The answers of commands that start, check and serve a project."""

from __future__ import annotations

from pydantic import Field

from waterclock.json_models.parts import Answer, AnswerPart, JsonValue, OneError, RoundedSeconds, read_from


class InitAnswer(Answer):
    """JSON output of `init`: the new project."""

    project: str
    """The folder."""
    files: list[str]
    """The files that were written, relative to the folder."""
    next: list[str]
    """The next commands to run."""


class CheckedConnection(AnswerPart):
    """A connection, or another part of the environment, that was tried."""

    kind: str
    name: str
    ok: bool = read_from("is_ok")
    description: str
    """The result in words."""
    seconds: RoundedSeconds
    error: OneError | None


class CheckPart(AnswerPart):
    """The errors and warnings of a project."""

    ok: bool
    """Whether there are no errors, with --connect also none of connections."""
    env: str | None
    """The environment that was checked."""
    errors: list[OneError]
    """The errors, in the order of their places."""
    warnings: list[OneError]
    """The warnings about valid code that may be a mistake."""
    tables: dict[str, int]
    """The number of declarations: collect, transform, publish, view, function and connection."""
    seconds: float
    """The duration."""


class CheckAnswer(CheckPart, Answer):
    """JSON output of `check`: the errors and warnings of a project."""

    connections: list[CheckedConnection]
    """With --connect: the connections and other parts that were tried, in order."""


class ComparedRows(AnswerPart):
    """A row of a comparison: as expected, and as found."""

    mark: str
    expected: dict[str, JsonValue] | None
    got: dict[str, JsonValue] | None


class ScenarioStep(AnswerPart):
    """A step of a scenario."""

    keyword: str
    text: str
    place: str
    verdict: str


class FailedScenarioStep(ScenarioStep):
    """A step that failed."""

    difference: str
    """The difference in words."""
    error: OneError | None
    rows: list[ComparedRows] | None
    """The compared rows."""


class SpecScenario(AnswerPart):
    """A scenario."""

    feature: str
    rule: str | None
    scenario: str
    place: str
    tags: list[str]
    verdict: str
    seconds: float
    tables: list[str]
    """The tables whose declarations it ran."""
    steps: list[FailedScenarioStep | ScenarioStep]


class SpecAnswer(Answer):
    """JSON output of `spec`: the results of the scenarios."""

    project: str
    """The name of the project."""
    env: str
    """The environment."""
    ok: bool
    """Whether all selected scenarios passed."""
    passed: int
    """The number of scenarios that passed."""
    failed: int
    """The number of scenarios that failed."""
    stopped: bool
    """Whether a user stopped the command."""
    seconds: float
    """The duration."""
    scenarios: list[SpecScenario]
    """The scenarios, in the order of the files."""
    page: str | None
    """The living document that was written."""


class ReceiveAnswer(Answer):
    """JSON output of `receive`: the address that receives events."""

    address: str
    """The address."""
    streams: list[str]
    """The streams, as connection/stream. Events are sent by POST to address + stream."""


class UiAnswer(Answer):
    """JSON output of `ui`: the address of the pages."""

    address: str
    """The first page, for clients that send the token. It is printed once, when the pages are served."""
    link: str
    """A link that opens the pages in one browser, within an hour."""
    host: str
    """The host."""
    port: int
    """The port."""


class TrustAnswer(Answer):
    """JSON output of `trust`: the trusted folders."""

    trusted: list[str]
    """The folders whose projects run although another user can change them."""
    list_: str = Field(alias="list")
    """The file of this user that lists them; WATERCLOCK_TRUST may name more."""
