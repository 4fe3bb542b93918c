"""Requests to the workers of a pool, and their answers."""

from __future__ import annotations

from dataclasses import dataclass

import httpx

__all__ = ["CallAnswer", "CallPending"]


@dataclass
class CallAnswer:
    """What a worker has answered."""

    id: str
    body: bytes
    content_type: str


@dataclass
class CallPending:
    """The request is durable and has not ended yet: `Client.call_answer` returns its answer later."""

    id: str


def answer_of(response: httpx.Response) -> CallAnswer | CallPending:
    """Reads the answer to a request."""
    id = response.headers.get("Rouse-Call-Id", "")
    if response.headers.get("Rouse-Call-Status") == "pending":
        return CallPending(id)
    return CallAnswer(id, response.content, response.headers.get("Content-Type", ""))
