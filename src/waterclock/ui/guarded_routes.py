"""Routes that declare the right they need, and refuse people without it before anything is read."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from http import HTTPStatus
from typing import TYPE_CHECKING

from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from waterclock.errors import WaterclockError
from waterclock.permissions.users_and_roles import AccessRules, Person, Right, require_right

if TYPE_CHECKING:
    from starlette.requests import Request

Endpoint = Callable[["Request"], Awaitable[Response]]
PERSON = "person"
"""The key of the person in the state of a request."""


class MissingRightError(HTTPException):
    """The person of a request does not have the right that its route needs."""

    def __init__(self, error: WaterclockError) -> None:
        super().__init__(HTTPStatus.FORBIDDEN, error.what)
        self.error = error


class GuardedRoute(Route):
    """A route for people who have one of `rights`. An empty tuple means that no right is needed.

    `rules` returns the declared users.
    `require` raises a `WaterclockError` for a person who may not use the route although they have the right.
    """

    def __init__(
        self,
        path: str,
        endpoint: Endpoint,
        *,
        rights: Sequence[Right],
        rules: Callable[[], AccessRules],
        methods: Sequence[str] = ("GET",),
        require: Callable[[Person], None] | None = None,
    ) -> None:
        async def check_and_call(request: Request) -> Response:
            person = person_of(request)
            require_one(person, rights, f"{request.method} {path}", rules)
            if require is not None and not person.may(Right.ADMINISTER):
                try:
                    await run_in_threadpool(require, person)
                except WaterclockError as error:
                    raise MissingRightError(error) from error
            return await endpoint(request)

        super().__init__(path, check_and_call, methods=list(methods))
        self.rights = tuple(rights)


def require_guarded(routes: Sequence[BaseRoute]) -> None:
    """Raise TypeError for a route that does not declare the right it needs."""
    for route in routes:
        if not isinstance(route, GuardedRoute):
            raise TypeError(f"{route} declares no right: make it a GuardedRoute")


def require_one(person: Person, rights: Sequence[Right], action: str, rules: Callable[[], AccessRules]) -> None:
    """Raise MissingRightError if a person has none of the rights. If `rights` is empty, none is needed."""
    if not rights or any(map(person.may, rights)):
        return
    try:
        require_right(person, rights[0], action, rules())
    except WaterclockError as error:
        raise MissingRightError(error) from error


def person_of(request: Request) -> Person:
    """Return the person who sends a request, whom the guard has identified."""
    person: Person = request.scope["state"][PERSON]
    return person
