"""What ``skillopt doctor`` reports: one check a thing that a training needs, each from facts at hand. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from skillopt.agents.check import ProgramReport
from skillopt.agents.description import Cli
from skillopt.agents.sandbox import Sandbox
from skillopt.engine.remedies import Commands, log_in, own_path
from skillopt.engine.resume import TRAINING, difference
from skillopt.extras import install_hint
from skillopt.models.pricing import Price, cost_of_call, dollars, total
from skillopt.models.profile import ResolvedRole
from skillopt.models.types import Attempt

Status = Literal["ok", "warn", "fail"]
GIB = 1 << 30
LITTLE_SPACE = GIB
NO_SPACE = 100 << 20


@dataclass(frozen=True, slots=True)
class Check:
    """One finding. ``advice`` are lines to type, the first one first; ``facts`` the same as values, for programs.

    ``fail``: no training can start like this. ``warn``: it can, but this deserves a look.
    """

    name: str
    status: Status
    found: str
    advice: tuple[str, ...] = ()
    facts: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class FolderState:
    """What stands in a run folder: ``kind``, and ``text`` that says more (how far a run came, why it is refused)."""

    kind: Literal["new", "running", "stopped", "finished", "foreign"]
    text: str = ""


def model_check(resolved: ResolvedRole) -> Check:
    """Provider, model and endpoint."""
    spec, row = resolved.spec, resolved.profile
    named = spec.model or "its own default model"
    text = "; ".join([f"{named}, {spec.provider} {resolved.place}", *_own_notes(resolved)])
    facts = {"provider": spec.provider, "model": spec.model, "endpoint": spec.base_url, "protocol": row.protocol}
    return Check(f"{spec.role} model", "ok", text, facts={**facts, "notes": list(resolved.notes)})


def _own_notes(resolved: ResolvedRole) -> list[str]:
    """The notes without the role in front, which the name of the check says."""
    return [note.removeprefix(f"{resolved.spec.role}: ") for note in resolved.notes if "no key is set" not in note]


def key_check(resolved: ResolvedRole, from_file: frozenset[str], commands: Commands) -> Check:
    """Which variable the key comes from; never a character of it. ``from_file`` are the variables that ``.env`` set."""
    name, row = f"{resolved.spec.role} key", resolved.profile
    facts: dict[str, Any] = {"credential": resolved.credential, "source": resolved.key_source, "length": None}
    if resolved.credential != "key":
        how = {"azure_cli": "a sign-in of the Azure CLI", "managed_identity": "a managed identity"}
        return Check(name, "ok", f"none: tokens from {how[resolved.credential]}", facts=facts)
    if resolved.api_key:
        place = f"{resolved.key_source} in .env" if resolved.key_source in from_file else resolved.key_source
        length = len(resolved.api_key)
        return Check(name, "ok", f"{place} ({length} characters)", facts={**facts, "length": length})
    if resolved.spec.provider == "local" or not row.needs_key:
        return Check(name, "ok", "none, and none is needed", facts=facts)
    advice = (commands.export(f"{row.prefix}_API_KEY", "YOUR_KEY"),)
    return Check(name, "warn", "none: requests carry no key", advice, facts)


def abilities_check(resolved: ResolvedRole, refusal: str, advice: tuple[str, ...]) -> Check:
    """What the provider can be asked; ``refusal`` says what an environment needs beyond that ('' for nothing)."""
    row = resolved.profile
    structured = "JSON schema" if row.json_schema else "asked for in the prompt"
    facts = {"tools": row.tools, "images": row.images, "json_schema": row.json_schema, "agent": row.agent}
    parts = [f"tools: {_yes(row.tools)}", f"images: {_yes(row.images)}", f"structured replies: {structured}"]
    if row.protocol == "cli":
        parts.append(f"works in a folder: {_yes(row.agent and resolved.spec.role == 'target')}")
    text = ", ".join(parts)
    name = f"{resolved.spec.role} abilities"
    return Check(name, "fail", f"{text}; {refusal}", advice, facts) if refusal else Check(name, "ok", text, facts=facts)


def _yes(value: bool) -> str:
    return "yes" if value else "no"


def price_check(resolved: ResolvedRole, price: Price | None) -> Check:
    """US dollars per million tokens; a price that nobody knows is unknown, never 0."""
    name = f"{resolved.spec.role} price"
    if price is None:
        own = resolved.profile.tells_cost
        text = "the program says what each call cost" if own else "unknown, so what a run costs will be unknown"
        return Check(name, "ok", text, facts={"known": own})
    facts = {"known": True, "input": price.input, "output": price.output, "cached": price.cached}
    if price.free:
        return Check(name, "ok", "free", facts=facts)
    parts = [f"{dollars(price.input)} in", f"{dollars(price.output)} out"]
    if price.cached is not None:
        parts.insert(1, f"{dollars(price.cached)} cached")
    return Check(name, "ok", f"{', '.join(parts)} per million tokens", facts=facts)


def weights_check(
    resolved: ResolvedRole, place: str, size: str, present: bool, engine: bool, commands: Commands
) -> Check:
    """The embedded model: its engine and its file, at ``place``, of ``size`` in words."""
    role, model = resolved.spec.role, resolved.spec.model
    facts = {"engine": engine, "present": present, "path": place}
    if not engine:
        text = "the engine for models on this machine is not installed"
        return Check(f"{role} weights", "fail", text, (install_hint("local"),), facts)
    if not present:
        text = f"not here yet; a run fetches them once ({size}, to {place})"
        return Check(f"{role} weights", "warn", text, (commands.of("models", "pull", model),), facts)
    return Check(f"{role} weights", "ok", f"here: {place}", facts=facts)


def program_checks(
    resolved: ResolvedRole, cli: Cli, report: ProgramReport, sandbox: Sandbox, login: str, commands: Commands
) -> list[Check]:
    """The program behind a role, how its runs are kept apart, and its login (``login`` names it, '' for none)."""
    role = resolved.spec.role
    facts = {"path": report.path, "version": report.version}
    if report.problems:
        install = (cli.install,) if cli.install.startswith("npm ") else ()
        advice = (*install, own_path(resolved, commands))
        program = Check(f"{role} program", "fail", "; ".join(report.problems), advice, facts)
    else:
        text = f"{cli.title} {report.version or '(it does not say its version)'}: {report.path}"
        program = Check(f"{role} program", "ok", text, facts=facts)
    missing = "not installed" in sandbox.isolation
    kept = Check(
        f"{role} sandbox",
        "ok" if sandbox.program else "warn",
        sandbox.isolation,
        ("sudo apt-get install bubblewrap",) if missing else (),
        {"bubblewrap": bool(sandbox.program)},
    )
    if login:
        signed = Check(f"{role} login", "ok", login, facts={"source": login})
    else:
        text = f"none found for {cli.title} in the environment or in its files"
        signed = Check(f"{role} login", "warn", text, log_in(cli, commands), {"source": ""})
    return [program, kept, signed]


def probe_check(resolved: ResolvedRole, attempts: Iterable[Attempt], price: Price | None, adapted: str = "") -> Check:
    """A probe that was answered, from the requests that it took."""
    made = list(attempts)
    last = made[-1]
    prompt = sum(each.usage.prompt_tokens for each in made)
    completion = sum(each.usage.completion_tokens for each in made)
    spent = total(cost_of_call(each.cost_usd, each.usage, price, answered=each.kind == "ok") for each in made)
    seconds = round(last.seconds, 3)
    cost = "unknown cost" if spent is None else dollars(spent)
    text = f"answered in {seconds:.2f} s, {prompt}+{completion} tokens, {cost}" + (f"; {adapted}" if adapted else "")
    facts = {"seconds": seconds, "requests": len(made), "prompt_tokens": prompt, "completion_tokens": completion}
    return Check(f"{resolved.spec.role} probe", "ok", text, facts={**facts, "cost_usd": spent})


def disk_check(root: str, place: str, free: int, writable: bool, commands: Commands) -> Check:
    """The disk of the run folder; ``place`` is the nearest folder that is there, ``free`` in bytes."""
    facts = {"path": root, "free_bytes": free, "writable": writable}
    elsewhere = (commands.doctor("--out_root", "outputs/another"), f"df -h {place}")
    if not writable:
        return Check("disk", "fail", f"{place} cannot be written, and the run folder would be {root}", elsewhere, facts)
    text = f"{free / GIB:,.1f} GiB free at {place}"
    if free < LITTLE_SPACE:
        return Check("disk", "fail" if free < NO_SPACE else "warn", text, elsewhere[::-1], facts)
    return Check("disk", "ok", text, facts=facts)


def folder_check(
    root: str,
    state: FolderState,
    made: Mapping[str, Any] | None,
    wanted: Mapping[str, Any] | None,
    policy: str,
    commands: Commands,
) -> Check:
    """The run folder: new, resumable, finished or refused. ``made`` is what its run was made with, ``wanted`` what is
    asked now (None where that cannot be told); ``policy`` is ``runtime.resume_policy``."""
    name, other = "run folder", commands.doctor("--out_root", f"{root}-2")
    if state.kind == "foreign":
        return Check(name, "fail", state.text, (other,), {"state": "refused"})
    if state.kind == "running":
        text = f"{root} is in use by another process"
        return Check(name, "fail", text, (commands.of("status", root), other), {"state": "refused"})
    if state.kind == "new" or made is None:
        return Check(name, "ok", f"{root} (new)", facts={"state": "new"})
    if made["kind"] != TRAINING:
        text = f"{root} is the folder of another kind of run ({made['kind']})"
        return Check(name, "fail", text, (other,), {"state": "refused"})
    lines = difference(dict(made), dict(wanted)) if wanted is not None else []
    if not lines:
        finished = state.kind == "finished"
        word = "finished" if finished else "resumable"
        text = "the same command sends nothing" if finished else f"{state.text}; the same command goes on"
        return Check(name, "ok", f"{root} ({word}: {text})", facts={"state": word})
    return _made_otherwise(root, lines, policy, commands, other)


def _made_otherwise(root: str, lines: list[str], policy: str, commands: Commands, other: str) -> Check:
    text = f"{root} was made with another configuration: {'; '.join(lines)}"
    facts = {"differences": lines}
    if policy == "strict":
        fork = commands.doctor("--resume_policy", "fork")
        return Check("run folder", "fail", text, (fork, other), {"state": "refused", **facts})
    where = "in a new folder beside it" if policy == "fork" else "in it"
    return Check("run folder", "ok", f"{text}; the run goes on {where} (resume_policy={policy})", facts=facts)
