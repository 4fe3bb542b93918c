"""The errors of the client.

Each code of a problem that callers may want to tell from others has a class. `docs/api.md` lists all codes.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Optional, Union

from .models import BulkProgress, Fault, Problem

__all__ = [
    "AlreadyExistsError",
    "ApiError",
    "ConflictError",
    "ConnectionFailedError",
    "FailedError",
    "ForbiddenError",
    "InvalidError",
    "NotFoundError",
    "OverloadedError",
    "RouseError",
    "SignatureError",
    "UnauthenticatedError",
    "UnavailableError",
]


class RouseError(Exception):
    """The base of all errors of this package."""


class ConnectionFailedError(RouseError):
    """The server could not be reached, or the connection broke."""

    def __init__(self, message: str, *, unsure: bool) -> None:
        super().__init__(message)
        self.unsure = unsure
        """Whether the server may have done what was asked."""


class SignatureError(RouseError):
    """A callback is not signed, its signature is too old, or no key matches."""


class FailedError(RouseError):
    """What a handler of fires raises if it wants more than another attempt after the usual pause."""

    def __init__(self, message: str, *, permanent: bool = False, retry_after: Union[timedelta, str, None] = None) -> None:
        super().__init__(message)
        self.permanent = permanent
        """No further attempt can succeed: the fire becomes a dead letter."""
        self.retry_after = retry_after
        """When the next attempt comes, in place of the timer's own pause; 0 is at once."""


class ApiError(RouseError):
    """The server refused a request: a problem as defined by RFC 9457."""

    def __init__(self, problem: Problem, *, retry_after: Optional[float] = None, progress: Optional[BulkProgress] = None) -> None:
        super().__init__(_text(problem))
        self.code: str = problem.code
        """What is wrong, for programs; it is stable."""
        self.status: int = problem.status
        """The status of HTTP."""
        self.title: str = problem.title
        self.detail: Optional[str] = problem.detail
        self.errors: list[Fault] = problem.errors or []
        """The fields that are invalid, each with its value, what is wrong with it, and the cure."""
        self.retry_after: Optional[float] = retry_after
        """Seconds until it is worth to try again, if the server sent it."""
        self.progress: Optional[BulkProgress] = progress
        """What a bulk change had done before it was interrupted."""


class InvalidError(ApiError):
    """A value is wrong (invalid), or the request cannot be read (malformed)."""


class NotFoundError(ApiError):
    """There is no such timer, dead letter or calendar."""


class AlreadyExistsError(ApiError):
    """The name is taken."""


class ConflictError(ApiError):
    """The timer has another revision, or the fire is not in progress."""


class OverloadedError(ApiError):
    """Too much load, or beyond a quota of the namespace. Nothing has changed; try again later."""


class UnavailableError(ApiError):
    """The server is stopping, or its store does not answer."""


class UnauthenticatedError(ApiError):
    """No valid credentials were sent."""


class ForbiddenError(ApiError):
    """The credentials do not allow it."""


_CLASSES: dict[str, type[ApiError]] = {
    "invalid": InvalidError,
    "malformed": InvalidError,
    "not_found": NotFoundError,
    "already_exists": AlreadyExistsError,
    "conflict": ConflictError,
    "overloaded": OverloadedError,
    "quota": OverloadedError,
    "closed": UnavailableError,
    "unavailable": UnavailableError,
    "unauthenticated": UnauthenticatedError,
    "forbidden": ForbiddenError,
}


def error_of(problem: Problem, **more: Any) -> ApiError:
    """Returns the error of a problem."""
    return _CLASSES.get(problem.code, ApiError)(problem, **more)


def _text(problem: Problem) -> str:
    """Returns a problem for people: what is wrong, and the cure."""
    parts = [f"{f.field}{f' {f.value!r}' if f.value else ''} {f.detail}{f': {f.cure}' if f.cure else ''}" for f in problem.errors or []]
    text = "; ".join(parts) or problem.detail or problem.title
    return f"{text} ({problem.code})"
