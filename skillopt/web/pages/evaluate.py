"""Evaluating a skill: one of a run, or a file, on a split."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from skillopt.config import Config, ConfigError, load_config
from skillopt.report.run import RunView
from skillopt.run.folder import FolderError
from skillopt.web.forms import evaluation_groups, filled, overrides
from skillopt.web.jobs import JobError
from skillopt.web.pages.launch import Findings, estimated, folder_problems, path_problems, seal
from skillopt.web.paths import PathError, configurations, confined
from skillopt.web.security import same
from skillopt.web.site import Form, Site, goto, site_of

SPLITS = (("test", "test"), ("val", "selection (val)"), ("train", "training"), ("all", "all items"))


@dataclass(frozen=True)
class Draft:
    """An evaluation that is being described. A skill is that of a ``run`` (by id; ``which`` one of it), or a ``file``,
    which needs a ``config``."""

    run: str
    which: str
    file: str
    config: str
    split: str
    name: str
    root: str
    values: Mapping[str, str]
    skill: str = ""
    problems: tuple[str, ...] = ()


def page(request: Request) -> Response:
    """The empty form, with the run that the address names."""
    site, asked = site_of(request), request.query_params
    run, which = asked.get("run", ""), asked.get("skill", "best")
    name = time.strftime("eval-%Y%m%d-%H%M%S")
    draft = Draft(run, which, "", "", SPLITS[0][0], name, str(site.settings.roots[0]), {})
    return _form(request, draft, Findings())


async def submit(request: Request, form: Form) -> Response:
    """Estimates the evaluation, or starts what was estimated."""
    site = site_of(request)
    draft = await run_in_threadpool(_draft, site, form)
    if draft.problems:
        return await run_in_threadpool(_form, request, draft, Findings())
    words = eval_words(draft)
    if form.get("action") == "start" and same(form.get("estimated"), seal(site, words)):
        try:
            folder = Path(draft.root) / draft.name
            job = await run_in_threadpool(site.jobs.start, "eval", words, folder)
        except JobError as error:
            return await run_in_threadpool(_form, request, draft, Findings(failed=str(error)))
        return goto(f"/job/{job.id}")
    findings = await estimated(site, words)
    return await run_in_threadpool(_form, request, draft, findings)


def eval_words(draft: Draft) -> list[str]:
    """The command line of the evaluation. Pure."""
    config = ["--config", draft.config] if draft.config else []
    told = ["--skill", draft.skill, "--split", draft.split]
    return [
        "eval",
        *config,
        *told,
        *overrides(draft.values),
        f"env.out_root={Path(draft.root) / draft.name}",
        "--plain",
    ]


def skill_file(view: RunView, which: str) -> Path | None:
    """The file of a run's skill: ``best``, ``seed``, ``final`` or a version number; None when it has none."""
    versions = view.versions
    numbers = {"seed": 0, "final": versions[-1] if versions else 0}
    if which == "best":
        return next((path for path in [view.root / "best_skill.md"] if path.is_file()), None)
    number = numbers.get(which, int(which) if which.isascii() and which.isdigit() and len(which) < 6 else -1)
    path = view.root / "skills" / f"skill_v{number:04d}.md"
    return path if number in versions else None


def _draft(site: Site, form: Form) -> Draft:
    values = filled(form.fields)
    split = form.get("split")
    name, root = form.get("run_name").strip(), form.get("root")
    run, which, file, config = (form.get(key).strip() for key in ("run", "which", "file", "config"))
    problems = [*folder_problems(site, name, root), *path_problems(site, values)]
    if split not in dict(SPLITS):
        problems.append("choose the items to evaluate on")
    if config and config not in configurations(site.settings.folder):
        problems.append("choose one of the configurations")
        config = ""
    skill, problem = _skill(site, run, which, file, config)
    problems += [problem] if problem else []
    return Draft(run, which, file, config, split, name, root, values, skill, tuple(problems))


def _skill(site: Site, run: str, which: str, file: str, config: str) -> tuple[str, str]:
    """The path of the skill, and what is wrong with it ('' when nothing is)."""
    allowed = (site.settings.folder, *site.settings.roots)
    if file:
        try:
            path = confined(file, allowed)
        except PathError as error:
            return "", str(error)
        if not path.is_file():
            return "", f"{file} is no file"
        return (str(path), "") if config else ("", "a skill file that lies in no run needs a configuration")
    entry = site.catalog.find(run)
    if entry is None:
        return "", "choose a run, or name a skill file"
    try:
        found = skill_file(site.catalog.view(entry), which)
        return (str(confined(str(found), allowed)), "") if found else ("", f"this run has no skill {which}")
    except (FolderError, PathError, OSError) as error:
        return "", str(error)


def _base(site: Site, draft: Draft) -> Config | None:
    try:
        return load_config(draft.config, (), {}, environ=site.settings.environ) if draft.config else None
    except ConfigError:
        return None


def _form(request: Request, draft: Draft, findings: Findings) -> Response:
    site = site_of(request)
    briefs = [site.catalog.brief(entry) for entry in site.catalog.entries()[:300]]
    return site.renderer.page(
        request,
        "evaluate.html",
        draft=draft,
        problems=draft.problems,
        configs=configurations(site.settings.folder),
        roots=[str(root) for root in site.settings.roots],
        runs=[brief for brief in briefs if brief is not None and brief.kind == "training"],
        splits=SPLITS,
        groups=evaluation_groups(draft.values, _base(site, draft)),
        found=findings,
        estimated=seal(site, eval_words(draft)) if findings.estimate else "",
        command="",
    )
