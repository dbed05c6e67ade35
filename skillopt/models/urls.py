"""Base URLs and proxies, from what a person typed. Pure: the environment is passed in."""

from __future__ import annotations

import re
from collections.abc import Mapping
from urllib.parse import SplitResult, urlsplit, urlunsplit

from skillopt.config.secrets import MASK
from skillopt.config.values import hide_userinfo, looks_like_a_key
from skillopt.models.errors import ProviderError

OPENAI_HOST = "api.openai.com"
LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1", "0.0.0.0"})
_SECRET_QUERY = re.compile(r"(?:key|token|secret|passw(?:or)?d|sig(?:nature)?|auth|\bcode)=", re.IGNORECASE)
_PLACE = re.compile(r"(?:[\w.-]+|\[[\da-f:.]+(?:%\w+)?\])(?::\d*)?", re.IGNORECASE)
"""A host, by its name or its address, and a port: what any reader of URLs takes for the same host."""


def normalise_base_url(url: str, *, where: str = "") -> str:
    """The base URL as it goes into journal keys: scheme and host in lower case, without the path of an operation
    (``/chat/completions``, ``/responses``, ``/messages``) or a slash at the end. A missing scheme is forgiven for this
    machine. Raises ``ProviderError``."""
    text, named = url.strip(), f" ({where})" if where else ""
    told = _shown(text)
    if not text:
        return ""
    if "://" not in text and host_of(f"http://{text}") in LOOPBACK:
        text = f"http://{text}"
    try:
        parts = urlsplit(text)
    except ValueError as error:
        raise ProviderError(f"the base URL {told!r}{named} is not a URL: {error}", setting=where) from None
    if parts.scheme.lower() not in ("http", "https") or not parts.hostname or not _good_port(parts):
        raise ProviderError(f"the base URL {told!r}{named} must look like https://host/v1", setting=where)
    if "@" in parts.netloc:
        raise ProviderError(
            f"the base URL of {parts.hostname}{named} must not hold a user name or a password", setting=where
        )
    if not _PLACE.fullmatch(parts.netloc):
        raise ProviderError(
            f"the base URL {told!r}{named} names no host: it has characters that none has", setting=where
        )
    if _SECRET_QUERY.search(parts.query):
        raise ProviderError(
            f"the base URL of {parts.hostname}{named} must not hold a key: give it as an API key", setting=where
        )
    path = re.sub(r"/+(?:(?:chat/+)?completions|responses|messages)/*$", "", parts.path).rstrip("/")
    if not path and parts.hostname == OPENAI_HOST:
        path = "/v1"
    return urlunsplit((parts.scheme.lower(), parts.netloc.lower(), path, parts.query, ""))


def _shown(text: str) -> str:
    """What stands where a URL should, as an error shows it: without a password, and without a key put there."""
    if looks_like_a_key(text):
        return MASK
    return hide_userinfo(text if "://" in text else f"://{text}").removeprefix("://")


def operation_url(base_url: str, path: str) -> str:
    """Where requests go: ``path`` (such as ``/chat/completions``) below a base URL, before its query."""
    parts = urlsplit(normalise_base_url(base_url))
    return urlunsplit((parts.scheme, parts.netloc, f"{parts.path}{path}", parts.query, ""))


def proxy_for(url: str, environ: Mapping[str, str]) -> str | None:
    """The HTTP proxy for ``url`` by ``HTTPS_PROXY``, ``HTTP_PROXY``, ``ALL_PROXY`` and ``NO_PROXY``, in either case.

    Worked out once a model: asking the environment at every request, as HTTP clients do, costs more than the request.
    """
    proxies = {k.lower()[:-6]: v for k, v in environ.items() if k.lower().endswith("_proxy") and v}
    proxies |= {k[:-6]: v for k, v in environ.items() if k.endswith("_proxy") and v}  # lower case wins, as in curl
    host = host_of(url)
    proxy = proxies.get(urlsplit(url).scheme) or proxies.get("all")
    if not proxy or not host or host in LOOPBACK or _bypassed(host, proxies.get("no", "")):
        return None
    if "://" not in proxy:
        proxy = f"http://{proxy}"
    return proxy if proxy.startswith(("http://", "https://")) else None


def host_of(url: str) -> str:
    """The host of a URL in lower case; '' when there is none."""
    try:
        return (urlsplit(url).hostname or "").lower()
    except ValueError:
        return ""


def _bypassed(host: str, no_proxy: str) -> bool:
    entries = (entry.strip().lower().partition(":")[0].lstrip("*").lstrip(".") for entry in no_proxy.split(","))
    return "*" in no_proxy.split(",") or any(
        entry and (host == entry or host.endswith(f".{entry}")) for entry in entries
    )


def _good_port(parts: SplitResult) -> bool:
    try:
        return parts.port is None or parts.port > 0
    except ValueError:
        return False
