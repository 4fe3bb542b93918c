"""How values are sent and read: JSON, times, durations, problems. Nothing here does I/O."""

from __future__ import annotations

import base64
import dataclasses
import functools
import json
import re
import typing
from datetime import datetime, timedelta, timezone
from email.utils import parsedate_to_datetime
from typing import Any, Callable, Mapping, Optional, TypeVar, Union
from urllib.parse import quote

from . import models
from .errors import ApiError, ConnectionFailedError, error_of

T = TypeVar("T")

_UNITS = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "ns": 1e-9}
_DURATION = re.compile(r"([0-9]+(?:\.[0-9]+)?)(h|ms|m|us|µs|ns|s)")
_TIME = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?(Z|[+-]\d\d:\d\d)")


def time_text(t: Union[datetime, str]) -> str:
    """Returns a time as RFC 3339 has it."""
    if isinstance(t, str):
        return t
    if t.tzinfo is None:
        raise ValueError(f"{t!r} has no time zone: use datetime.now(timezone.utc), or another one with tzinfo")
    return t.astimezone(timezone.utc).isoformat(timespec="microseconds").replace("+00:00", "Z")


def time_of(text: str) -> datetime:
    """Reads a time of RFC 3339; the server's have milliseconds."""
    m = _TIME.fullmatch(text)
    if m is None:
        raise ValueError(f"{text!r} is no time of RFC 3339")
    t = datetime.fromisoformat(m[1] + (m[3] if m[3] != "Z" else "+00:00"))
    return t + timedelta(microseconds=int((m[2] or "0").ljust(6, "0")[:6]))


def duration_text(d: Union[timedelta, float, str]) -> str:
    """Returns a duration as the server reads it, such as 90s; numbers are seconds."""
    if isinstance(d, str):
        return d
    micros = round((d.total_seconds() if isinstance(d, timedelta) else d) * 1e6)
    if micros % 1_000_000 == 0:
        return f"{micros // 1_000_000}s"
    return f"{micros // 1000}ms" if micros % 1000 == 0 else f"{micros / 1000}ms"


def duration_of(text: str) -> timedelta:
    """Reads a duration such as 1h30m0s."""
    sign, rest = (-1.0, text[1:]) if text.startswith("-") else (1.0, text)
    parts = _DURATION.findall(rest)
    if rest != "0" and "".join(n + unit for n, unit in parts) != rest or not rest:
        raise ValueError(f"{text!r} is no duration")
    return timedelta(seconds=sign * sum(float(n) * _UNITS[unit] for n, unit in parts))


def encode(value: Any) -> Any:
    """Returns what a value is in JSON. None is left out of dataclasses; in dicts, such as payloads, it is null."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        out: dict[str, Any] = {}
        for f in dataclasses.fields(value):
            v, name = getattr(value, f.name), f.metadata.get("json", f.name)
            if v is None:
                continue
            if name == "payload":
                out.update(payload_members(v))
            else:
                out[name] = encode(v)
        return out
    if isinstance(value, datetime):
        return time_text(value)
    if isinstance(value, timedelta):
        return duration_text(value)
    if isinstance(value, dict):
        return {k: encode(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [encode(v) for v in value]
    return value


def payload_members(payload: Any) -> dict[str, Any]:
    """Returns the member of a request that has a payload."""
    if isinstance(payload, (bytes, bytearray, memoryview)):
        return {"payload_base64": base64.b64encode(bytes(payload)).decode()}
    return {"payload": payload}


def dumps(value: Any) -> bytes:
    """Returns the body of a request, without members that are None. What JSON does not have, such as NaN, is refused."""
    if isinstance(value, dict):
        value = {k: v for k, v in value.items() if v is not None}
    return json.dumps(encode(value), ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()


def patch_body(changes: Mapping[str, Any]) -> bytes:
    """Returns the body of a patch, in which None is null."""
    members = {k: v for k, v in changes.items() if k != "payload"}
    if "payload" in changes:
        members.update(payload_members(changes["payload"]))
    return json.dumps(encode(members), ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()


_SPACE = re.compile(r"[ \t\r\n]*")


def member_text(text: str, member: str) -> Optional[str]:
    """Returns the text of a member of a JSON object, as it was sent. A payload that is read and sent back stays the same byte for byte:
    Python would write numbers such as 1.10 in another way.
    """
    decoder = json.JSONDecoder()
    at = _after_space(text, 0) + 1  # the brace
    while text[(at := _after_space(text, at))] != "}":
        name, at = decoder.raw_decode(text, at)
        start = _after_space(text, _after_space(text, at) + 1)  # the colon
        _, at = decoder.raw_decode(text, start)
        if name == member:
            return text[start:at]
        at = _after_space(text, at)
        at += text[at] == ","
    return None


def _after_space(text: str, at: int) -> int:
    return _SPACE.match(text, at).end()  # type: ignore[union-attr]


@functools.lru_cache(maxsize=None)
def _hints(cls: type) -> dict[str, Any]:
    return typing.get_type_hints(cls, vars(models))


def decode(cls: type[T], data: Any) -> T:
    """Reads an object of a class of models. Members that it does not know are of later servers, and left out."""
    if not isinstance(data, dict):
        raise TypeError("it is no object")
    hints = _hints(cls)  # type: ignore[arg-type]
    values: dict[str, Any] = {}
    for f in dataclasses.fields(cls):  # type: ignore[arg-type]
        name = f.metadata.get("json", f.name)
        if name == "payload" and "payload_base64" in data:
            values[f.name] = base64.b64decode(data["payload_base64"])
        elif name in data:
            values[f.name] = _value(hints[f.name], data[name])
        elif f.default is dataclasses.MISSING:
            values[f.name] = None
    return cls(**values)


def _value(hint: Any, data: Any) -> Any:
    origin = typing.get_origin(hint)
    if origin is Union:
        kinds = [k for k in typing.get_args(hint) if k not in (type(None), str)]
        return None if data is None else _value(kinds[0], data) if kinds else data
    if origin is list:
        return [_value(typing.get_args(hint)[0], v) for v in data]
    if origin is dict:
        return {k: _value(typing.get_args(hint)[1], v) for k, v in data.items()}
    if hint is datetime:
        return time_of(data)
    if hint is timedelta:
        return duration_of(data)
    return decode(hint, data) if isinstance(hint, type) and dataclasses.is_dataclass(hint) else data


def path(*parts: str) -> str:
    """Returns a path whose parts are escaped. A verb is added to it, after a colon."""
    return "/v1/" + "/".join(_escape(part) for part in parts)


def _escape(part: str) -> str:
    # httpx takes these for steps in the path, unless they are escaped: what is asked for would be another thing.
    return part.replace(".", "%2E") if part in (".", "..") else quote(part, safe="")


def query(**values: Any) -> list[tuple[str, str]]:
    """Returns the parameters of a query; None and empty ones are left out."""
    out: list[tuple[str, str]] = []
    for name, value in values.items():
        if value is None:
            continue
        if name == "labels":
            out += [("label", f"{k}={v}") for k, v in value.items()]
        elif isinstance(value, (list, tuple)):
            out += [(name, str(v)) for v in value]
        elif isinstance(value, bool):
            out.append((name, "true" if value else "false"))
        elif isinstance(value, timedelta):
            out.append((name, duration_text(value)))
        else:
            out.append((name, time_text(value) if isinstance(value, datetime) else str(value)))
    return out


def seconds_until(retry_after: Optional[str], date: Optional[str]) -> Optional[float]:
    """Reads the headers Retry-After, seconds or a date as load balancers send it, and Date, when the answer was sent."""
    if retry_after is None:
        return None
    if retry_after.isascii() and retry_after.isdigit():
        return float(retry_after)
    try:
        now = parsedate_to_datetime(date) if date else datetime.now(timezone.utc)
        return max(0.0, (parsedate_to_datetime(retry_after) - now).total_seconds())
    except (ValueError, TypeError):
        return None


def documented(response: Any) -> bool:
    """Reports whether a response is one with which the server grants a request. A redirect or a page is of something in between."""
    kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
    of_server = kind in ("application/json", "application/x-ndjson") or "rouse-call-id" in response.headers
    return response.status_code == 204 or 200 <= response.status_code < 300 and of_server


def read(response: Any, form: Callable[[Any], T]) -> T:
    """Reads the JSON of a response. If it is not what the server sends, that is an error of the call."""
    try:
        return form(json.loads(response.content))
    except (ValueError, AttributeError, TypeError, KeyError) as failure:
        raise unexpected(response) from failure


def answer(cls: type[T], response: Any) -> T:
    """Reads the object of a response."""
    return read(response, lambda data: decode(cls, data))


def answers(cls: type[T], response: Any, member: str) -> list[T]:
    """Reads the objects in a member of a response."""
    return read(response, lambda data: [decode(cls, row) for row in data[member]])


def progress_of(text: str) -> models.BulkProgress:
    """Reads the reports of a bulk change, and returns the last one, with the failures and names of all."""
    reports: list[models.BulkProgress] = []
    for line in text.split("\n"):
        try:
            if line:
                reports.append(decode(models.BulkProgress, json.loads(line)))
        except (ValueError, AttributeError, TypeError):
            break  # cut off
    last = reports[-1] if reports else models.BulkProgress(0, 0, 0)
    last.failures = [failure for report in reports for failure in report.failures or []] or None
    last.names = [name for report in reports for name in report.names or []] or None
    if last.problem is not None:
        raise error_of(last.problem, progress=last)
    if not last.done:
        goes_on = f": the change goes on as job {last.job}" if last.job else ""
        raise ConnectionFailedError(f"the answer ended before the report that all is done{goes_on}", unsure=True)
    return last


# These mean the same from the server and from a load balancer in front of it. Other statuses do not: the 404 of a page is of no timer.
_STATUSES = {429: "overloaded", 502: "unavailable", 503: "unavailable", 504: "unavailable"}


def problem_of(response: Any) -> ApiError:
    """Returns the error of a response. One that is no problem comes from something in between, such as a load balancer."""
    headers = response.headers
    retry_after = seconds_until(headers.get("retry-after"), headers.get("date"))
    try:
        if headers.get("content-type", "").partition(";")[0].strip() != "application/problem+json":
            raise ValueError
        problem = decode(models.Problem, json.loads(response.content))
        if not isinstance(problem.code, str):
            raise TypeError
    except (ValueError, AttributeError, TypeError, KeyError):
        return unexpected(response, retry_after)
    return error_of(problem, retry_after=retry_after)


def unexpected(response: Any, retry_after: Optional[float] = None) -> ApiError:
    """Returns the error of a response that is not as the server's are, with where it is from."""
    status, url = response.status_code, response.url.copy_with(query=None)
    text = response.content[:200].decode(errors="replace")
    detail = f"unexpected answer of {url}: HTTP status {status}{f': {text}' if text else ''}"
    code = _STATUSES.get(status, "unexpected")
    return error_of(models.Problem(type="about:blank", title=f"HTTP status {status}", status=status, code=code, detail=detail), retry_after=retry_after)


def error_as(error: ApiError, code: str, detail: str) -> ApiError:
    """Returns an error as one with another code."""
    return error_of(models.Problem(type="about:blank", title=error.title, status=error.status, code=code, detail=detail))
