"""What a program finds in its environment: a short list of names, and of credentials only its own."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from skillopt.agents.description import Cli
from skillopt.agents.values import switched_on
from skillopt.agents.workspace import Workspace
from skillopt.types import Role

_KEPT = ("PATH", "LANG", "LANGUAGE", "TZ", "SYSTEMROOT", "WINDIR", "COMSPEC", "PATHEXT", "NUMBER_OF_PROCESSORS")
_CERTIFICATES = ("SSL_CERT_FILE", "SSL_CERT_DIR", "NODE_EXTRA_CA_CERTS", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")
_PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY")
_URL = "_BASE_URL"
_FILES = (*_CERTIFICATES, "CODEX_CA_CERTIFICATE", "GOOGLE_APPLICATION_CREDENTIALS")


@dataclass(frozen=True, slots=True)
class Credentials:
    """How a program is logged in: by ``variables``, and by its stored login when ``stored``. ``source`` names where it
    comes from, '' for nowhere. ``secrets`` are the values that no text may show."""

    variables: Mapping[str, str] = field(default_factory=dict, repr=False)
    secrets: tuple[str, ...] = field(default=(), repr=False)
    stored: bool = False
    source: str = ""


def find_program(named: str, environ: Mapping[str, str]) -> str | None:
    """The absolute path of the program ``named``, a name or a path; None when there is none that can be run."""
    found = shutil.which(os.path.expanduser(named), path=environ.get("PATH"))
    return os.path.abspath(found) if found else None


def credentials(cli: Cli, role: Role, environ: Mapping[str, str], has_login: bool) -> Credentials:
    """The credentials of ``cli`` in ``role``. A variable with the role before its name outweighs all plain ones, so
    that a role with a key of its own never gets the other's; a plain one outweighs a stored login (``has_login``). Such
    a login is for the program's own service: a URL that is set for whatever has a key does not lead it elsewhere."""
    prefix = f"{role.upper()}_"
    settings = {name: value for name in cli.settings if (value := _value(environ, prefix, name))}
    mine = {name: value for name, value in settings.items() if not name.endswith(_URL) or prefix + name in environ}
    for switch, names in cli.switches.items():
        if switched_on(_value(environ, prefix, switch)):
            found = {name: value for name in names if (value := _value(environ, prefix, name))}
            hidden = tuple(value for name, value in found.items() if "KEY" in name or "TOKEN" in name)
            return Credentials({switch: "1", **settings, **found}, hidden, False, switch)
    own = _present(environ, prefix, (*cli.secrets, *cli.weak_secrets))
    plain = _present(environ, "", cli.secrets)
    weak = {} if has_login else _present(environ, "", cli.weak_secrets)
    chosen, shown = (own, prefix) if own else (plain or weak, "")
    if not chosen:
        return Credentials(
            mine if has_login else settings, (), has_login, f"the stored login of {cli.title}" if has_login else ""
        )
    again = {cli.also_as[name]: value for name, value in chosen.items() if name in cli.also_as}
    source = " and ".join(f"{shown}{name}" for name in chosen)
    return Credentials({**settings, **again, **chosen}, tuple(chosen.values()), False, source)


def _value(environ: Mapping[str, str], prefix: str, name: str) -> str:
    return environ.get(f"{prefix}{name}", "").strip() or environ.get(name, "").strip()


def _present(environ: Mapping[str, str], prefix: str, names: tuple[str, ...]) -> dict[str, str]:
    return {name: value for name in names if (value := environ.get(f"{prefix}{name}", "").strip())}


def child_environment(
    cli: Cli, environ: Mapping[str, str], space: Workspace, login: Credentials, extra: Mapping[str, str]
) -> dict[str, str]:
    """The whole environment of a run. ``extra`` is added as it is."""
    kept = {name: environ[name] for name in _kept(environ) if environ.get(name)}
    home, temporary = str(space.home), str(space.temporary)
    own = {
        "TERM": "dumb",
        "NO_COLOR": "1",
        "HOME": home,
        **dict.fromkeys(("TMPDIR", "TMP", "TEMP"), temporary),
    }
    if "SYSTEMROOT" in kept:  # Windows
        own |= {"USERPROFILE": home, "APPDATA": home, "LOCALAPPDATA": home}
    if cli.config_variable:
        own[cli.config_variable] = str(space.home / cli.config)
    return {**kept, **own, **cli.fixed, **login.variables, **extra}


def _kept(environ: Mapping[str, str]) -> list[str]:
    proxies = [name for upper in _PROXIES for name in (upper, upper.lower())]
    return [*_KEPT, *_CERTIFICATES, *proxies, *(name for name in environ if name.startswith("LC_"))]


def named_files(environment: Mapping[str, str]) -> tuple[Path, ...]:
    """The files and directories that a child's environment names and that it must be able to read."""
    return tuple(Path(value) for name in _FILES if (value := environment.get(name)))
