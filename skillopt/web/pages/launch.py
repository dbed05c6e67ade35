"""A new run: the form, the checks before it, and its start by the command line."""

from __future__ import annotations

import os
import shlex
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from skillopt.config import Config, ConfigError, load_config
from skillopt.data.errors import DataError
from skillopt.web.commands import checks_of, run_command
from skillopt.web.forms import PATHS, advanced_groups, basic_groups, filled, overrides, run_name_problem
from skillopt.web.jobs import PROGRAM, JobError
from skillopt.web.paths import PathError, configurations, confined, shipped
from skillopt.web.preview import preview
from skillopt.web.security import same
from skillopt.web.site import Form, Site, goto, site_of

_FIRST = "configs/searchqa/default.yaml"
ACTIONS = ("show", "check", "preview", "estimate", "start")


@dataclass(frozen=True)
class Draft:
    """A run that is being described: ``config`` names the file, ``values`` hold what differs from it."""

    config: str
    name: str
    root: str
    values: Mapping[str, str]
    problems: tuple[str, ...] = ()


@dataclass(frozen=True)
class Findings:
    """What was found out before the start."""

    report: Mapping[str, Any] | None = None
    splits: list[Any] = field(default_factory=list)
    estimate: str = ""
    failed: str = ""


def page(request: Request) -> Response:
    """The empty form."""
    site, asked = site_of(request), request.query_params
    names = configurations(site.settings.folder)
    wanted = asked.get("config", "") or _first(site, names)
    config = wanted if wanted in names else next(iter(names), "")
    return _form(request, Draft(config, _suggested(), str(site.settings.roots[0]), {}), Findings())


def _first(site: Site, names: Sequence[str]) -> str:
    """The configuration that is offered first: one whose data are there."""
    for name in (_FIRST, *names):
        config, _ = _configured(site, Draft(name, "", "", {}))
        data = (config.env.split_dir or config.env.data_path) if config is not None and name in names else ""
        if data and ((site.settings.folder / data).exists() or shipped(data, site.settings.folder)):
            return name
    return _FIRST


async def submit(request: Request, form: Form) -> Response:
    """One of the buttons of the form."""
    site = site_of(request)
    draft = await run_in_threadpool(_draft, site, form)
    action = form.get("action", "show")
    if draft.problems or action not in ACTIONS or action == "show":
        return await run_in_threadpool(_form, request, draft, Findings())
    if action == "start":
        return await _start(request, draft, form)
    if action == "preview":
        findings = await run_in_threadpool(_previewed, site, draft)
    elif action == "check":
        findings = await _checked(site, draft)
    else:
        findings = await estimated(site, train_words(draft))
    return await run_in_threadpool(_form, request, draft, findings)


def train_words(draft: Draft) -> list[str]:
    """The command line of the run. Pure."""
    return ["train", *_options(draft), f"env.out_root={folder_of(draft)}", "--plain"]


def folder_of(draft: Draft) -> Path:
    return Path(draft.root) / draft.name


async def estimated(site: Site, words: list[str]) -> Findings:
    """The dry run of a command: what it would send."""
    output = await run_command(PROGRAM, [*words, "--dry-run"], site.settings.folder, site.settings.environ)
    if output.status == 0:
        return Findings(estimate=output.out)
    return Findings(failed=(output.err or output.out).strip() or "the dry run ended without a word")


def path_problems(site: Site, values: Mapping[str, str]) -> list[str]:
    """What is wrong with the paths that a form names."""
    problems = []
    for name in PATHS:
        given = values.get(name, "").strip()
        if given and not shipped(given, site.settings.folder):
            try:
                confined(given, (site.settings.folder, *site.settings.roots))
            except PathError as error:
                problems.append(f"{name}: {error}")
    return problems


def folder_problems(site: Site, name: str, root: str) -> list[str]:
    """Why a new run cannot have this folder."""
    if root not in map(str, site.settings.roots):
        return ["the folder of the run must be one of the roots"]
    problem = run_name_problem(name)
    if problem:
        return [problem]
    return [f"there is a folder {name} already: choose another name"] if os.path.lexists(Path(root) / name) else []


def seal(site: Site, words: list[str]) -> str:
    """What shows that exactly this command has been estimated."""
    return site.keys.seal("estimated", *words)


def _draft(site: Site, form: Form) -> Draft:
    values = filled(form.fields)
    config, name, root = form.get("config"), form.get("run_name").strip(), form.get("root")
    problems = [*folder_problems(site, name, root), *path_problems(site, values)]
    if config not in configurations(site.settings.folder):
        problems.append("choose one of the configurations")
        config = _FIRST
    return Draft(config, name, root, values, tuple(problems))


def _options(draft: Draft) -> list[str]:
    return ["--config", draft.config, *overrides(draft.values)]


async def _start(request: Request, draft: Draft, form: Form) -> Response:
    site, words = site_of(request), train_words(draft)
    if not same(form.get("estimated"), seal(site, words)):
        findings = await estimated(site, words)
        return await run_in_threadpool(_form, request, draft, findings, changed=True)
    try:
        job = await run_in_threadpool(site.jobs.start, "train", words, folder_of(draft))
    except JobError as error:
        return await run_in_threadpool(_form, request, draft, Findings(failed=f"{error}"))
    return goto(f"/job/{job.id}")


async def _checked(site: Site, draft: Draft) -> Findings:
    words = ["doctor", "--json", *_options(draft), f"env.out_root={folder_of(draft)}"]
    output = await run_command(PROGRAM, words, site.settings.folder, site.settings.environ)
    report = checks_of(output)
    return Findings(report=report, failed="" if report else (output.err or output.out).strip() or "no report")


def _previewed(site: Site, draft: Draft) -> Findings:
    config, problem = _configured(site, draft)
    if config is None:
        return Findings(failed=problem)
    path = config.env.split_dir if config.env.split_mode == "split_dir" else config.env.data_path
    try:
        if not shipped(path, site.settings.folder):
            path = str(confined(path, (site.settings.folder, *site.settings.roots)))
        return Findings(splits=list(preview(config.env.split_mode, path, site.settings.folder)))
    except (DataError, PathError, OSError) as error:
        return Findings(failed=str(error))


def _configured(site: Site, draft: Draft, *, own: bool = True) -> tuple[Config | None, str]:
    """The configuration of a draft, with its own values or without; None and why, when it is none."""
    try:
        path = site.settings.folder / draft.config
        given = overrides(draft.values) if own else []
        return load_config(path if path.is_file() else draft.config, given, {}, environ=site.settings.environ), ""
    except ConfigError as error:
        return None, str(error)


def _form(request: Request, draft: Draft, findings: Findings, *, changed: bool = False) -> Response:
    site = site_of(request)
    config, problem = _configured(site, draft, own=False)
    problems = [*draft.problems, *([problem] if problem else [])]
    return site.renderer.page(
        request,
        "new.html",
        draft=draft,
        problems=problems,
        configs=configurations(site.settings.folder),
        roots=[str(root) for root in site.settings.roots],
        basic=basic_groups(draft.values, config),
        advanced=advanced_groups(draft.values, config),
        found=findings,
        changed=changed,
        estimated=seal(site, train_words(draft)) if findings.estimate else "",
        command=_typed(draft) if not draft.problems else "",
    )


def _typed(draft: Draft) -> str:
    return shlex.join(["skillopt", *train_words(draft)])


def _suggested() -> str:
    return time.strftime("run-%Y%m%d-%H%M%S")
