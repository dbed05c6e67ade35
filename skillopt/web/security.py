"""Who may ask: host names, origins, the token, and the headers of every answer.

A page in another tab can send requests here, and can give this address a name of its own. So the Host must be a name
of this server, an Origin must be the same as the Host, and a form must carry a word that only our own pages hold.
"""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import secrets
import socket
from collections.abc import Mapping
from dataclasses import dataclass, field
from html import escape
from http.cookies import CookieError, SimpleCookie
from urllib.parse import parse_qs, urlencode

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import HTMLResponse, PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from skillopt.web.settings import Settings, is_loopback

HEADERS: Mapping[str, str] = {
    "content-security-policy": (
        "default-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; object-src 'none'"
    ),
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
}
_OPEN = ("/static/",)
_FORM_KEY = "skillopt.csrf"
_WELCOME = (
    '<!doctype html><html lang="en"><meta charset="utf-8"><title>SkillOpt</title>'
    '<meta http-equiv="refresh" content="0; url={url}"><p><a href="{url}">Open the dashboard</a></p></html>'
)


@dataclass(frozen=True)
class Keys:
    """The secrets of one process of the dashboard."""

    token: str = field(repr=False)
    secret: bytes = field(default_factory=lambda: secrets.token_bytes(32), repr=False)

    def pass_word(self) -> str:
        """What the cookie of a visitor with the token holds: not the token itself."""
        return hmac.new(self.token.encode(), b"skillopt dashboard", hashlib.sha256).hexdigest()

    def form_word(self, cookie: str) -> str:
        """What a form must carry, for the visitor with this cookie."""
        return self.seal("form", cookie)

    def seal(self, *words: str) -> str:
        """A word that only this process can make of ``words``."""
        joined = "\0".join(f"{len(word)}:{word}" for word in words)
        return hmac.new(self.secret, joined.encode("utf-8", "surrogateescape"), hashlib.sha256).hexdigest()


def same(one: str, other: str) -> bool:
    """Compares in constant time."""
    return hmac.compare_digest(one.encode("utf-8", "replace"), other.encode("utf-8", "replace"))


def host_allowed(header: str, bound: str) -> bool:
    """Whether a Host header names this server, which listens on ``bound``. Pure but for this machine's own name."""
    name = _hostname(header)
    if not name:
        return False
    if is_loopback(name):
        return True
    if is_loopback(bound):
        return False
    if name == bound.lower().strip("[]"):
        return True
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return name in {socket.gethostname().lower(), socket.getfqdn().lower()}
    return True  # an address cannot be given another meaning, as a name can


def origin_allowed(origin: str, host: str) -> bool:
    """Whether a page of ``origin`` is one of this server. Pure."""
    scheme, separator, rest = origin.partition("://")
    return bool(separator) and scheme in ("http", "https") and rest.lower() == host.lower()


def _hostname(header: str) -> str:
    header = header.strip().lower()
    if any(char in header for char in "/@?#\\ \t,"):
        return ""
    if header.startswith("["):
        address, _, rest = header[1:].partition("]")
        return address if not rest or (rest[0] == ":" and rest[1:].isdecimal()) else ""
    return header.partition(":")[0].rstrip(".")


def cookies_of(headers: Headers) -> dict[str, str]:
    """The cookies of a request; none where they make no sense."""
    try:
        return {name: morsel.value for name, morsel in SimpleCookie(headers.get("cookie", "")).items()}
    except CookieError:
        return {}


class Guard:
    """Middleware in front of everything: refuses strangers, and sets the headers and the cookie for forms."""

    def __init__(self, app: ASGIApp, settings: Settings, keys: Keys) -> None:
        self._app, self._settings, self._keys = app, settings, keys

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        cookies = cookies_of(headers)
        cookie = cookies.get(self._name("form"), "")
        fresh = len(cookie) != 43
        scope[_FORM_KEY] = cookie = secrets.token_urlsafe(32) if fresh else cookie
        refusal = self._refusal(scope, headers, cookies)

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                out = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    out[name] = value
                out.setdefault("cache-control", "no-store")
                if fresh and not scope["path"].startswith(_OPEN):
                    out.append("set-cookie", self._cookie("form", cookie))
            await send(message)

        await (refusal or self._app)(scope, receive, guarded)

    def _refusal(self, scope: Scope, headers: Headers, cookies: Mapping[str, str]) -> Response | None:
        host = headers.get("host", "")
        if not host_allowed(host, self._settings.host):
            return PlainTextResponse("Unknown host: open the dashboard by the address that it printed.\n", 421)
        origin, site = headers.get("origin"), headers.get("sec-fetch-site", "same-origin")
        writes = scope["method"] not in ("GET", "HEAD")
        if origin is not None and not origin_allowed(origin, host):
            return PlainTextResponse("Requests from other sites are refused.\n", 403)
        if writes and site not in ("same-origin", "none"):
            return PlainTextResponse("Requests from other sites are refused.\n", 403)
        return self._stranger(scope, cookies)

    def _stranger(self, scope: Scope, cookies: Mapping[str, str]) -> Response | None:
        token = self._settings.token
        if not token or scope["path"].startswith(_OPEN):
            return None
        query = parse_qs(scope["query_string"].decode("latin-1"))
        given = query.pop("token", [""])[-1]
        if scope["method"] == "GET" and given and same(given, token):
            # No redirect: a browser that came from another site would not send the new cookie along.
            rest = urlencode(query, doseq=True)
            # Browsers leave out tabs and line ends, which may part two slashes.
            path = "/" + "".join(char for char in scope["path"] if char.isprintable()).lstrip("/\\")
            target = escape(path + (f"?{rest}" if rest else ""), quote=True)
            response = HTMLResponse(_WELCOME.replace("{url}", target))
            response.headers["set-cookie"] = self._cookie("pass", self._keys.pass_word())
            return response
        if same(cookies.get(self._name("pass"), ""), self._keys.pass_word()):
            return None
        return PlainTextResponse(
            "This dashboard asks for its token: open the address that it printed, which ends in ?token=…\n", 401
        )

    def _name(self, kind: str) -> str:
        # Cookies do not keep ports apart: two dashboards on one machine must not share them.
        return f"skillopt_{kind}_{self._settings.port}"

    def _cookie(self, kind: str, value: str) -> str:
        return f"{self._name(kind)}={value}; Path=/; HttpOnly; SameSite=Strict"


def form_cookie(scope: Scope) -> str:
    """The cookie that the forms of this visitor are bound to."""
    return str(scope[_FORM_KEY])
