"""What a client is told about its server: addresses, TLS, credentials. The same names and defaults as those of the command line."""

from __future__ import annotations

import ipaddress
import os
import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import Optional
from urllib.parse import urlsplit

__all__ = ["Settings", "settings"]


@dataclass(frozen=True)
class Settings:
    """The checked settings of a client."""

    bases: tuple[str, ...]
    namespace: str
    key: Optional[str]
    tls: Optional[ssl.SSLContext]
    certificate: Optional[Certificate]


class Certificate:
    """The certificate of the client, which new connections present: it is read again when its files change."""

    def __init__(self, tls: ssl.SSLContext, cert: str, key: Optional[str]) -> None:
        self._tls, self._cert, self._key = tls, cert, key
        self._read = self._stamp()
        tls.load_cert_chain(cert, key)

    def refresh(self) -> None:
        """Reads the files if they have changed."""
        try:
            stamp = self._stamp()
            if stamp == self._read:
                return
            ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_cert_chain(self._cert, self._key)  # they may not fit together yet
            self._tls.load_cert_chain(self._cert, self._key)
            self._read = stamp
        except (OSError, ssl.SSLError):
            pass  # what was read before is used until they can be read

    def _stamp(self) -> list[tuple[int, int]]:
        stats = [os.stat(file) for file in (self._cert, self._key) if file is not None]
        return [(stat.st_mtime_ns, stat.st_ino) for stat in stats]


def settings(
    server: Optional[str], namespace: Optional[str], key: Optional[str], key_file: Optional[str], ca: Optional[str], client_cert: Optional[str],
    client_key: Optional[str],
) -> Settings:  # fmt: skip
    """Completes settings from the environment, and checks them."""
    ca, client_cert = ca or os.environ.get("ROUSE_CA"), client_cert or os.environ.get("ROUSE_CLIENT_CERT")
    client_key = client_key or os.environ.get("ROUSE_CLIENT_KEY")
    secure = bool(ca or client_cert)
    addresses = [a.strip() for a in (server or os.environ.get("ROUSE_SERVER") or "127.0.0.1:7411").split(",")]
    bases = tuple(_base(address, secure) for address in addresses)
    if key is None and (file := key_file or os.environ.get("ROUSE_KEY_FILE")):
        key = Path(file).read_text().strip().partition("\n")[0]
    key = (key or os.environ.get("ROUSE_KEY") or "").strip() or None
    for base in bases:
        if key and base.startswith("http://") and not _is_local(urlsplit(base).hostname or ""):
            raise ValueError(f"a key is sent to {base} only under TLS: use https://")
    tls, certificate = None, None
    if any(base.startswith("https://") for base in bases):
        tls = ssl.create_default_context(cafile=ca)
        if client_cert:
            certificate = Certificate(tls, client_cert, client_key)
    return Settings(bases, namespace or os.environ.get("ROUSE_NAMESPACE") or "default", key, tls, certificate)


def _base(address: str, secure: bool) -> str:
    """Returns the URL of an address. Without a scheme, connections to this host are in plain text, others use TLS."""
    if "://" not in address:
        host = urlsplit("//" + address).hostname or ""
        address = ("http://" if _is_local(host) and not secure else "https://") + address
    url = urlsplit(address)
    try:
        wrong = url.port == 0  # reading it checks it
    except ValueError:
        wrong = True
    if wrong or url.scheme not in ("http", "https") or not url.hostname or url.path.strip("/") or url.query or url.fragment or "@" in url.netloc:
        raise ValueError(f"server {address!r}: use HOST:PORT, http://HOST:PORT or https://HOST:PORT")
    return address.rstrip("/")


def _is_local(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
