"""Verifies callbacks: signatures `v1` (HMAC) and `v1a` (Ed25519) of Standard Webhooks, and the identity of a fire.

A key is a secret, `whsec_…`, which verifies signatures `v1`, or a public key, `whpk_…`, which verifies signatures `v1a` and needs the
package `cryptography`, which the extra `ed25519` installs. `rouse signing reveal` prints both; `Client.signing_keys` returns them.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import time
from dataclasses import dataclass
from datetime import datetime
from typing import Callable, Iterable, Mapping, Optional, Union
from urllib.parse import unquote

from ._wire import time_of
from .errors import SignatureError

__all__ = ["Identity", "TOLERANCE", "verify", "verify_identity"]

TOLERANCE = 300
"""The maximum difference between a signature's time and the verifier's, in seconds, in the past or the future."""

# How many signatures of a request are compared with a public key, which takes time.
_MAX_PUBLIC = 16

# The headers of an identity, in the order in which they are signed.
_IDENTITY = (
    "rouse-namespace", "rouse-timer", "rouse-fire-id", "rouse-due", "rouse-attempt", "rouse-token", "rouse-generation", "rouse-manual",
    "rouse-last",
)  # fmt: skip


@dataclass(frozen=True)
class Identity:
    """Which fire a callback is, and which attempt of it."""

    namespace: str
    timer: str
    fire_id: str
    """The same for every attempt of an occurrence, for ever: store it with the work, and drop what comes twice."""
    due: datetime
    attempt: int
    token: int
    """Fencing token: it grows from attempt to attempt."""
    generation: int
    manual: bool
    """A client requested the fire with `run`."""
    last: bool
    """No attempt follows."""


def verify(keys: Union[str, Iterable[str]], headers: Mapping[str, str], body: bytes, *, now: Optional[float] = None) -> None:
    """Checks that a callback was signed with one of the keys, at most `TOLERANCE` seconds from now; raises `SignatureError`.

    The body has to be the bytes of the request, unchanged. The headers `rouse-…` are not covered: use `verify_identity` for them.

    >>> headers = {"webhook-id": "1", "webhook-timestamp": "1700000000", "webhook-signature": "v1,Z3Vlc3NlZA=="}
    >>> rouse.webhooks.verify("whsec_" + "A" * 32, headers, b"{}", now=1700000000)
    Traceback (most recent call last):
    rouse.errors.SignatureError: no signature matches
    """
    _verify(keys, _lower(headers), body, now, lambda key, signature: True)


def verify_identity(keys: Union[str, Iterable[str]], headers: Mapping[str, str], body: bytes, *, now: Optional[float] = None) -> Identity:
    """Checks a callback as `verify` does, and that the same key signed the identity of its fire, which it returns.

    A batch has no identity: its fires are in its body.
    """
    h = _lower(headers)
    values = [h.get(name, "") for name in _IDENTITY]
    signatures = h.get("rouse-signature", "")
    if not all(values) or not signatures or any("\n" in v for v in values):
        raise SignatureError("the request is not signed: a header of the fire's identity is missing")
    content = ("rouse-identity-v1\n" + "".join(v + "\n" for v in values)).encode()
    _verify(keys, h, body, now, lambda key, signature: key.find(signatures, content + signature.encode()) is not None)
    namespace, timer, fire_id, due, attempt, token, generation, manual, last = values
    if fire_id != h["webhook-id"]:
        raise SignatureError("no signature matches")
    try:
        return Identity(namespace, unquote(timer), fire_id, time_of(due), int(attempt), int(token), int(generation), manual == "true", last == "true")
    except ValueError as error:
        raise SignatureError("no signature matches") from error


class _Secret:
    """A key of signatures v1."""

    def __init__(self, text: str) -> None:
        self.key = _decoded(text.removeprefix("whsec_") if hasattr(text, "removeprefix") else text, 24, 64, "whsec_")

    def find(self, signatures: str, message: bytes) -> Optional[str]:
        want = b"v1," + base64.b64encode(hmac.new(self.key, message, hashlib.sha256).digest())
        for one in signatures.split(" "):
            if hmac.compare_digest(one.encode(), want):
                return one
        return None


class _Public:
    """A key of signatures v1a."""

    def __init__(self, text: str) -> None:
        try:
            from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
        except ImportError as error:
            raise RuntimeError("public keys need the package cryptography: pip install 'cryptography>=41'") from error
        self.key = Ed25519PublicKey.from_public_bytes(_decoded(text[len("whpk_") :], 32, 32, "whpk_"))

    def find(self, signatures: str, message: bytes) -> Optional[str]:
        from cryptography.exceptions import InvalidSignature

        for one in [s for s in signatures.split(" ") if s.startswith("v1a,")][:_MAX_PUBLIC]:
            try:
                self.key.verify(base64.b64decode(one[len("v1a,") :], validate=True), message)
                return one
            except (InvalidSignature, binascii.Error):
                continue
        return None


def _verify(
    keys: Union[str, Iterable[str]], h: Mapping[str, str], body: bytes, now: Optional[float], more: Callable[[Union[_Secret, _Public], str], bool]
) -> None:
    """Looks for a key that has signed the body, and with whose signature over the body more agrees."""
    if not isinstance(body, (bytes, bytearray, memoryview)):
        raise TypeError("body must be the bytes of the request, before they are parsed")
    id, stamp, signatures = h.get("webhook-id", ""), h.get("webhook-timestamp", ""), h.get("webhook-signature", "")
    if not id or not stamp or not signatures:
        raise SignatureError("the request is not signed: a webhook- header is missing")
    if not (stamp.isascii() and stamp.isdigit() and len(stamp) < 19):
        raise SignatureError("the signature's time is no Unix time")
    if abs((time.time() if now is None else now) - int(stamp)) > TOLERANCE:
        raise SignatureError("the signature is too old or too new")
    message = f"{id}.{int(stamp)}.".encode() + bytes(body)
    for text in [keys] if isinstance(keys, str) else keys:
        key: Union[_Secret, _Public] = _Public(text) if text.startswith("whpk_") else _Secret(text)
        one = key.find(signatures, message)
        if one is not None and more(key, one):
            return
    raise SignatureError("no signature matches")


def _decoded(text: str, shortest: int, longest: int, prefix: str) -> bytes:
    """Returns the bytes of a key. The error does not contain it."""
    try:
        key = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        key = b""
    if not shortest <= len(key) <= longest:
        raise ValueError(f"a key is {prefix!r} and the base64 form of {shortest} to {longest} bytes")
    return key


def _lower(headers: Mapping[str, str]) -> dict[str, str]:
    return {name.lower(): value for name, value in headers.items()}
