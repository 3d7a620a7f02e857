"""Check the address of an engine before the bridge connects to it.

In: a URL from the command line. Out: an Address with the IP that its name resolves to now, so that
a later change of the name has no effect; or AddressError. Only loopback addresses are allowed, or
any with `allow_remote`. Link-local addresses are never allowed: clouds serve credentials there.
"""

import ipaddress
import re
import socket
from typing import NamedTuple
from urllib.parse import urlsplit

from ...errors import DetokError


class AddressError(DetokError, ValueError):
    """An engine URL that the bridge does not connect to."""


class Address(NamedTuple):
    """A checked engine URL.

    `base` has the resolved IP, `host` is the Host header, `shown` is for messages. `named` is
    whether the user named it, and not a list of usual ports or another server. `key` is the
    variable of the environment that has its API key.
    """

    base: str
    host: str
    shown: str
    named: bool = True
    key: str = "DETOK_ENGINE_API_KEY"


def check_address(url: str, *, allow_remote: bool = False, named: bool = True) -> Address:
    """Return the address of an engine, resolved and pinned. A last `/v1` is dropped: it is part of
    OpenAI's routes. Raises AddressError.

    >>> check_address("http://127.0.0.1:8080/v1").base
    'http://127.0.0.1:8080'
    >>> check_address("http://169.254.169.254/")
    Traceback (most recent call last):
        ...
    detok_py.bridge.engines.address.AddressError: engine 169.254.169.254 is not on this machine; add
    --allow-remote-engine to use another's.
    """
    if any(ch <= " " or ch == "\x7f" or ch == "\\" for ch in url):
        raise AddressError("an engine URL has no spaces, control characters or backslashes in it.")
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise AddressError(
            "the engine URL does not parse; give it like http://127.0.0.1:8080."
        ) from None
    if parts.scheme not in ("http", "https"):
        raise AddressError(
            f"engine URLs are http or https, not {parts.scheme[:20]!r}; give it like http://127.0.0.1:8080."
        )
    if parts.username is not None or parts.password is not None:
        raise AddressError(
            "an engine URL has no user or password in it; put a key into the environment as DETOK_ENGINE_API_KEY."
        )
    if parts.query or parts.fragment:
        raise AddressError(
            "an engine URL has no query or fragment; give it like http://127.0.0.1:8080."
        )
    host = parts.hostname or ""
    if not host:
        raise AddressError("the engine URL names no host; give it like http://127.0.0.1:8080.")
    _refuse_odd_numbers(host)
    port = port or (443 if parts.scheme == "https" else 80)
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):  # UnicodeError: a label of the name is empty or too long
        raise AddressError(
            f"engine host {host} has no address; check the name, or give its IP."
        ) from None
    addresses = [ipaddress.ip_address(str(entry[4][0]).partition("%")[0]) for entry in found]
    for address in addresses:
        _refuse(address, host, allow_remote)
    # IPv4 first: engines listen on 127.0.0.1, and "localhost" often also means ::1.
    address = sorted(addresses, key=lambda a: a.version)[0]
    literal = f"[{address}]" if address.version == 6 else str(address)
    path = parts.path.rstrip("/").removesuffix("/v1").rstrip("/")
    netloc = parts.netloc.rpartition("@")[2]
    return Address(
        f"{parts.scheme}://{literal}:{port}{path}",
        netloc,
        f"{parts.scheme}://{netloc}{path}",
        named,
    )


def _refuse_odd_numbers(host: str) -> None:
    """Refuse numbers that the C library accepts as IPv4 addresses: 2130706433, 0x7f.1, 127.1,
    0177.0.0.1.
    """
    if ":" in host or not re.fullmatch(
        r"(0x[0-9a-f]*|[0-9]+)", host.rstrip(".").rpartition(".")[2], re.IGNORECASE
    ):
        return
    try:
        ipaddress.IPv4Address(host)
    except ValueError:
        raise AddressError(
            f"engine host {host} is a number, but not a plain IPv4 address; give it like 127.0.0.1."
        ) from None


def _refuse(
    address: ipaddress.IPv4Address | ipaddress.IPv6Address, host: str, allow_remote: bool
) -> None:
    if address.version == 6 and (address.ipv4_mapped or address.sixtofour or address.teredo):
        raise AddressError(
            f"engine host {host} is an IPv4 address inside an IPv6 one; give the IPv4 address."
        )
    if address.is_loopback:
        return
    if not allow_remote:
        raise AddressError(
            f"engine {host} is not on this machine; add --allow-remote-engine to use another's."
        )
    if (
        address.is_link_local
        or address.is_multicast
        or address.is_unspecified
        or address.is_reserved
    ):
        raise AddressError(
            f"engine {host} is a link-local or reserved address, which is not allowed; give its real address."
        )
