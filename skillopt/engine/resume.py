"""Whether a run may go on in a folder: what the folder was made with against what is asked now."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal

from skillopt.config import explain_difference, fingerprint
from skillopt.engine.plan import steps_per_epoch
from skillopt.engine.prepare import Prepared
from skillopt.run.folder import ENDS, JOURNAL, RunFolder, peek_meta
from skillopt.types import Item

Kind = Literal["training", "evaluation"]
TRAINING: Kind = "training"
EVALUATION: Kind = "evaluation"


class ResumeError(ValueError):
    """A run folder that was made with another configuration; the message shows what differs and what to do."""


def open_run(prepared: Prepared, kind: Kind, mask: Callable[[str], str]) -> RunFolder:
    """The run folder for a prepared run, by ``runtime.resume_policy``.

    ``strict`` refuses a folder made with another configuration; ``fork`` goes on in a new folder beside it, with the
    replies that are still valid; ``force`` goes on in it. Raises ``ResumeError`` or ``FolderError``.
    """
    root = Path(prepared.config.env.out_root).absolute()
    wanted: dict[str, Any] = json.loads(mask(json.dumps(identity(prepared, kind))))
    made = made_with(root)
    policy = prepared.config.runtime.resume_policy
    if made is None or (made["kind"] == kind and not difference(made, wanted)):
        return _open(root, wanted, mask)
    if made["kind"] != kind:
        raise ResumeError(f"{root} is the folder of another kind of run ({made['kind']}); choose another out_root")
    if policy == "force":
        _check_steps(root, made, wanted)
        return _open(root, wanted, mask, unfinished=True)
    if policy == "fork":
        return _fork(root, wanted, mask)
    lines = "\n".join(f"  {line}" for line in difference(made, wanted))
    raise ResumeError(
        f"{root} was made with another configuration:\n{lines}\n"
        "Run with the old values to go on, choose another out_root, or add --resume-policy fork (go on in a new folder "
        "beside it, reusing what is still valid) or --resume-policy force (go on here)"
    )


def identity(prepared: Prepared, kind: Kind) -> dict[str, Any]:
    """What must be the same for a run to go on: the configuration, the models, the environment, the items, the first
    skill."""
    models = {
        role: {"provider": resolved.spec.provider, "model": resolved.spec.model, "base_url": resolved.spec.base_url}
        for role, resolved in prepared.roles.items()
    }
    if kind == EVALUATION:
        return {"kind": kind}
    items = {split: [len(rows), _digest(rows)] for split, rows in prepared.items.items()}
    found = {
        "kind": kind,
        "config": fingerprint(prepared.config),
        "models": models,
        "env_version": prepared.env.version,
        "items": items,
        "skill": prepared.skill.hash,
    }
    return dict(json.loads(json.dumps(found)))


def made_with(root: Path) -> dict[str, Any] | None:
    """What the run in ``root`` was made with; None when there is no run."""
    text = peek_meta(root, "identity")
    return dict(json.loads(text)) if text else None


def difference(made: dict[str, Any], wanted: dict[str, Any]) -> list[str]:
    """Lines ``key: old -> new``. Evaluations differ in nothing that matters: their answers are kept by content."""
    if "config" not in wanted:
        return []
    lines = explain_difference(made["config"], wanted["config"])
    for role, spec in wanted["models"].items():
        lines += [
            f"{role} {key}: {made['models'][role][key]} -> {value}"
            for key, value in spec.items()
            if made["models"][role][key] != value
        ]
    if made["env_version"] != wanted["env_version"]:
        lines.append(f"version of the environment: {made['env_version']} -> {wanted['env_version']}")
    for split, (count, digest) in wanted["items"].items():
        if made["items"][split] != [count, digest]:
            lines.append(f"{split} items: {made['items'][split][0]} -> {count} (other ids, contents or order)")
    if made["skill"] != wanted["skill"]:
        lines.append(f"first skill: {made['skill']} -> {wanted['skill']}")
    return lines


def _check_steps(root: Path, made: dict[str, Any], wanted: dict[str, Any]) -> None:
    """Steps are kept by their number: with another number of steps an epoch they would be taken for others."""
    before, now = _steps(made), _steps(wanted)
    if before != now:
        raise ResumeError(
            f"{root} has {before} steps an epoch, and now there would be {now}: it cannot go on in place. Use "
            "--resume-policy fork, or another out_root"
        )


def _steps(identity: dict[str, Any]) -> int:
    config, train = identity["config"], identity["items"]["train"][0]
    return steps_per_epoch(train, int(config["train.batch_size"]), int(config["train.accumulation"]))


def _open(root: Path, wanted: dict[str, Any], mask: Callable[[str], str], *, unfinished: bool = False) -> RunFolder:
    """The folder, from now on of a run as ``wanted``. ``unfinished`` lets a finished run go on."""
    folder = RunFolder(root, mask)
    if unfinished:
        folder.journal.withdraw(ENDS, ["summary.json"])
    folder.journal.set_meta("identity", json.dumps(wanted))
    return folder


def _fork(root: Path, wanted: dict[str, Any], mask: Callable[[str], str]) -> RunFolder:
    number = 1
    while True:
        beside = root.with_name(f"{root.name}-fork{number}")
        made = made_with(beside)
        if made == wanted or (made is None and _is_free(beside)):
            folder = _open(beside, wanted, mask)
            folder.journal.adopt_replies(root / JOURNAL)
            return folder
        number += 1


def _is_free(path: Path) -> bool:
    return not path.exists() or (path.is_dir() and not any(path.iterdir()))


def _digest(items: Sequence[Item]) -> str:
    rows = json.dumps([[item.id, dict(item.data)] for item in items], sort_keys=True, default=str)
    return hashlib.sha256(rows.encode()).hexdigest()[:16]
