"""Azure OpenAI: where its requests go, and the tokens that authorise them without a key."""

from __future__ import annotations

import asyncio
import json
import re
import shutil
import subprocess
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import Any, NamedTuple
from urllib.parse import parse_qs, quote, urlsplit, urlunsplit

from skillopt.config.model_keys import AuthMode
from skillopt.config.provider_names import AZURE_AUTH_MODES
from skillopt.extras import install_hint
from skillopt.models.errors import ModelError, ProviderError
from skillopt.models.profile import Auth, Credential, ResolvedRole
from skillopt.models.settings import Found, Settings, choice
from skillopt.models.urls import host_of, normalise_base_url

PREFIX = ("AZURE_OPENAI",)
API_VERSION = "2024-12-01-preview"
RESPONSES_API_VERSION = "2025-04-01-preview"
AD_SCOPE = "https://cognitiveservices.azure.com/.default"
_TOKEN_HOSTS = tuple(
    f".{service}.azure.{cloud}"
    for service in ("openai", "cognitiveservices", "services.ai")
    for cloud in ("com", "us", "cn")
)
_EXTRA = install_hint("azure")


@dataclass(frozen=True, slots=True)
class AzurePlace:
    """Where requests for a deployment go and how they are authorised. ``base_url`` ends before the operation's path."""

    base_url: str
    auth: Auth
    credential: Credential
    api_key: str = field(repr=False)
    key_source: str
    ad_scope: str = ""
    client_id: str = ""


def azure_place(settings: Settings, deployment: str, base_url: str, *, responses: bool) -> AzurePlace:
    """The place of a deployment by the settings ``AZURE_OPENAI_…``; ``base_url`` stands for the endpoint.

    Raises ``ProviderError``: no endpoint, no key, an unknown way to authenticate, a token for a host that is not
    Azure's.
    """
    role = settings.role
    endpoint = Found(base_url, "base_url") if base_url else settings.find(PREFIX, "ENDPOINT", "BASE_URL")
    if not endpoint:
        raise ProviderError(
            f"{role}: Azure OpenAI needs an endpoint: set AZURE_OPENAI_ENDPOINT (or "
            f"{role.upper()}_AZURE_OPENAI_ENDPOINT for this role alone) to https://NAME.openai.azure.com",
            setting="AZURE_OPENAI_ENDPOINT",
        )
    key = settings.find(PREFIX, "API_KEY")
    asked = settings.find(PREFIX, "AUTH_MODE")
    mode = choice(asked, AuthMode, AZURE_AUTH_MODES)
    mode = mode or ("api_key" if key else "azure_cli")
    where = normalise_base_url(endpoint.text, where=endpoint.source)
    if mode == "openai_compatible":
        return AzurePlace(where, "bearer", "key", key.text, key.source)
    version = settings.find(PREFIX, "API_VERSION").text
    url = _deployment_url(where, deployment, version, responses)
    if mode == "api_key":
        if not key:
            raise ProviderError(
                f"{role}: no key for Azure OpenAI at {host_of(url)}: set AZURE_OPENAI_API_KEY",
                setting="AZURE_OPENAI_API_KEY",
            )
        return AzurePlace(url, "api-key", "key", key.text, key.source)
    check_token_url(url, asked.source)
    scope = settings.find(PREFIX, "AD_SCOPE").text or AD_SCOPE
    if mode == "azure_cli":
        return AzurePlace(url, "bearer", "azure_cli", "", "", scope)
    client = settings.find(PREFIX, "MANAGED_IDENTITY_CLIENT_ID").text
    return AzurePlace(url, "bearer", "managed_identity", "", "", scope, client)


def _deployment_url(endpoint: str, deployment: str, version: str, responses: bool) -> str:
    """``https://HOST/openai/deployments/NAME?api-version=V``, whatever of it the endpoint has already.

    The Responses API names the deployment in its body; an endpoint that ends in ``/openai/v1`` does so in any case, and
    has no versions.
    """
    parts = urlsplit(endpoint)
    if parts.path.endswith("/openai/v1"):
        return urlunsplit((parts.scheme, parts.netloc, parts.path, "", ""))
    stem = re.sub(r"/openai(/.*)?$", "", parts.path)
    written = parse_qs(parts.query).get("api-version", [""])[0]
    version = version or written or (RESPONSES_API_VERSION if responses else API_VERSION)
    path = f"{stem}/openai" if responses else f"{stem}/openai/deployments/{quote(deployment, safe='')}"
    return urlunsplit((parts.scheme, parts.netloc, path, f"api-version={quote(version, safe='')}", ""))


def check_token_url(url: str, mode_source: str = "") -> None:
    """Raises ``ProviderError`` unless an Azure token may be sent to ``url``: https, and a host of Azure's.
    ``mode_source`` is the setting that asks for tokens ('' when none does)."""
    if urlsplit(url).scheme != "https" or not host_of(url).endswith(_TOKEN_HOSTS):
        raise ProviderError(
            f"Azure tokens are only sent to https hosts of Azure, not to {host_of(url) or url}: check "
            "AZURE_OPENAI_ENDPOINT, or set AZURE_OPENAI_AUTH_MODE to api_key or openai_compatible",
            setting=mode_source or "AZURE_OPENAI_AUTH_MODE",
            choices=("api_key", "openai_compatible"),
        )


class Token(NamedTuple):
    """An access token, and when it expires (seconds since the epoch)."""

    text: str
    expires: float


TokenGetter = Callable[[], Token]
"""Gets a token; it may block. Raises ``ModelError`` of the kind ``auth``."""

_REFRESH = 300.0
_UNKNOWN_LIFE = 3000.0
_CLI_PATIENCE = 60.0


class AzureToken:
    """The authorisation headers of a role that has no key, renewed five minutes before they expire."""

    def __init__(self, get: TokenGetter, url: str, *, now: Callable[[], float] = time.time) -> None:
        """``url`` is where the token will be sent; raises ``ProviderError`` when it may not be."""
        check_token_url(url)
        self._get = get
        self._now = now
        self._lock = asyncio.Lock()
        self._token: Token | None = None

    @classmethod
    def of(cls, role: ResolvedRole, environ: Mapping[str, str]) -> AzureToken:
        """For a role without a key. Raises ``ProviderError`` when what it takes is not installed."""
        return cls(token_getter(role, environ), role.spec.base_url)

    async def headers(self) -> Mapping[str, str]:
        """``Authorization``, with a token that holds for five more minutes. Raises ``ModelError``."""
        async with self._lock:  # of many calls at once only the first asks
            if self._token is None or self._token.expires - self._now() < _REFRESH:
                self._token = await asyncio.to_thread(self._get)
            return {"Authorization": f"Bearer {self._token.text}"}

    def secrets(self) -> tuple[str, ...]:
        """What has to be kept out of messages."""
        return (self._token.text,) if self._token else ()


def token_getter(role: ResolvedRole, environ: Mapping[str, str]) -> TokenGetter:
    """How the role gets its tokens. Raises ``ProviderError`` when neither a library nor a program is there for it."""
    library = _has_library()
    if role.credential == "managed_identity":
        if not library:
            raise ProviderError(
                f"{role.spec.role}: a managed identity needs azure-identity: {_EXTRA}", kind="install", command=_EXTRA
            )
        from azure.identity import ManagedIdentityCredential  # the extra `azure`, only where it is asked for

        return _from_library(ManagedIdentityCredential(client_id=role.client_id or None), role.ad_scope)
    if library:
        from azure.identity import AzureCliCredential

        return _from_library(AzureCliCredential(), role.ad_scope)
    program = shutil.which("az", path=environ.get("PATH"))
    if program is None:
        raise ProviderError(
            f"{role.spec.role}: no key for Azure OpenAI is set, and the Azure CLI is not here: set "
            f"AZURE_OPENAI_API_KEY, or install the CLI (az login)",
            setting="AZURE_OPENAI_API_KEY",
        )
    return lambda: cli_token(program, role.ad_scope, environ)


def _has_library() -> bool:
    try:
        return find_spec("azure.identity") is not None
    except ModuleNotFoundError:
        return False


def _from_library(credential: Any, scope: str) -> TokenGetter:
    def get() -> Token:
        from azure.core.exceptions import ClientAuthenticationError

        try:
            token = credential.get_token(scope)
        except ClientAuthenticationError as error:
            lines = str(error.message).strip().splitlines()
            raise ModelError("auth", f"no Azure token: {lines[0] if lines else 'authentication failed'}") from None
        return Token(str(token.token), float(token.expires_on))

    return get


def cli_token(program: str, scope: str, environ: Mapping[str, str], *, now: Callable[[], float] = time.time) -> Token:
    """A token from ``az account get-access-token``. Raises ``ModelError``."""
    resource = scope.removesuffix("/.default")
    command = [program, "account", "get-access-token", "--resource", resource, "--output", "json"]
    try:
        done = subprocess.run(
            command,
            env=dict(environ),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_CLI_PATIENCE,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise ModelError("auth", f"no Azure token: az gave none within {_CLI_PATIENCE:g} s") from None
    except OSError as error:
        raise ModelError("auth", f"no Azure token: az cannot be run: {error.strerror}") from None
    if done.returncode != 0:
        said = done.stderr.decode("utf-8", "replace").strip().splitlines()
        raise ModelError("auth", f"no Azure token: az says: {said[0] if said else 'nothing'} (try: az login)")
    return read_cli_token(done.stdout.decode("utf-8-sig", "replace"), now())


def read_cli_token(output: str, now: float) -> Token:
    """The token in the JSON that ``az`` prints; without a numeric expiry it is taken to live 50 minutes from ``now``.

    Raises ``ModelError``.
    """
    try:
        found = json.loads(output)
        token, expires = found["accessToken"], found.get("expires_on")
    except (ValueError, TypeError, KeyError, AttributeError):
        raise ModelError("auth", "no Azure token: what az printed holds none") from None
    try:
        return Token(str(token), float(expires))
    except (TypeError, ValueError):
        return Token(str(token), now + _UNKNOWN_LIFE)
