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
from skillopt.run.folder import ENDS, JOURNAL, FolderError, RunFolder, ask, holds_files
from skillopt.types import Item

Kind = Literal["training", "evaluation"]
TRAINING: Kind = "training"
EVALUATION: Kind = "evaluation"
_IDENTITY = frozenset({"kind", "config", "models", "env_version", "skill"})
# Which items a configuration picks is told by the items themselves.
_PICKING = frozenset({"env.split_mode", "env.split_ratio", "env.split_seed", "env.limit"})


class ResumeError(ValueError):
    """A run folder that was made with another configuration; the message shows what differs and what to do."""


def open_run(prepared: Prepared, kind: Kind, mask: Callable[[str], str], skill: str = "") -> RunFolder:
    """The run folder for a prepared run, by ``runtime.resume_policy``; ``skill`` is what people call its skill.

    ``strict`` refuses a folder made with another configuration; ``fork`` goes on in a new folder beside it, with the
    replies that are still valid; ``force`` goes on in it. Raises ``ResumeError`` or ``FolderError``.
    """
    root = Path(prepared.config.env.out_root).absolute()
    wanted: dict[str, Any] = json.loads(mask(json.dumps(identity(prepared, kind, skill))))
    made = made_with(root)
    if made is None and (root / JOURNAL).exists() and holds_files(root):
        raise FolderError(f"{root} holds a run, and its journal does not say of what; choose another out_root")
    policy = prepared.config.runtime.resume_policy
    if made is not None and made["kind"] != kind:
        raise ResumeError(f"{root} is the folder of another kind of run ({made['kind']}); choose another out_root")
    if made is None or not difference(made, wanted) or (kind == EVALUATION and _is_blank(root)):
        return _open(root, wanted, mask)
    if policy == "force":
        if kind == TRAINING:
            _check_steps(root, made, wanted)
        return _open(root, wanted, mask, anew=True)
    if policy == "fork":
        return _fork(root, wanted, mask)
    lines = "\n".join(f"  {line}" for line in difference(made, wanted))
    what = "was made with another configuration" if kind == TRAINING else "holds another evaluation"
    raise ResumeError(
        f"{root} {what}:\n{lines}\n"
        "Run with the old values to go on, choose another out_root (--out_root DIR), or add --resume-policy fork (go "
        "on in a new folder beside it, reusing what is still valid) or --resume-policy force (go on here)"
    )


def identity(prepared: Prepared, kind: Kind, skill: str = "") -> dict[str, Any]:
    """What must be the same for a run to go on: the configuration, the models, the environment, the items, the first
    skill. Of an evaluation only what its results hang on counts. ``skill`` is a name to show, which may differ."""
    config = fingerprint(prepared.config)
    models: dict[str, dict[str, Any]] = {}
    for role, resolved in prepared.roles.items():
        spec = resolved.spec
        models[role] = {"provider": spec.provider, "model": spec.model, "base_url": spec.base_url}
        if kind == EVALUATION:
            more = {"temperature": spec.temperature, "reasoning_effort": spec.reasoning_effort}
            models[role] |= {**more, "parameters": dict(spec.parameters)}
    if kind == EVALUATION:
        config = {key: config[key] for key in config if key.startswith("env.") and key not in _PICKING}
    found = {
        "kind": kind,
        "config": config,
        "models": models,
        "env_version": prepared.env.version,
        "items": {split: [len(rows), _digest(rows)] for split, rows in prepared.items.items()},
        "skill": prepared.skill.hash,
        **({"name": skill} if skill else {}),
    }
    return dict(json.loads(json.dumps(found, default=dict)))


def made_with(root: Path) -> dict[str, Any] | None:
    """What the run in ``root`` was made with; None when there is no run. Raises ``FolderError`` when that cannot be
    read."""
    row = ask(root, "SELECT value FROM meta WHERE key='identity'")
    if row is None:
        return None
    try:
        made = json.loads(row[0])
    except (TypeError, ValueError, RecursionError):
        made = None
    # Evaluations once noted less, and no items; what they were of is not known.
    less = isinstance(made, dict) and made.get("kind") == EVALUATION and "items" not in made
    if not isinstance(made, dict) or not (less or made.keys() >= _IDENTITY):
        raise FolderError(f"the journal in {root} does not say what its run was made with; choose another out_root")
    return made


def difference(made: dict[str, Any], wanted: dict[str, Any]) -> list[str]:
    """Lines ``key: old -> new`` for what matters and differs between two runs of a kind."""
    if "items" not in made:  # by a version that did not note it
        return [f"what was evaluated: not known -> {_skill(wanted)}"]
    lines = explain_difference(made["config"], wanted["config"])
    for role, spec in wanted["models"].items():
        lines += [
            f"{role} {key}: {made['models'][role][key]} -> {value}"
            for key, value in spec.items()
            if made["models"][role][key] != value
        ]
    if made["env_version"] != wanted["env_version"]:
        lines.append(f"version of the environment: {made['env_version']} -> {wanted['env_version']}")
    before, now = made["items"], wanted["items"]
    if before.keys() != now.keys():
        lines.append(f"splits: {', '.join(before)} -> {', '.join(now)}")
    for split in now:
        if split in before and before[split] != now[split]:
            lines.append(f"{split} items: {before[split][0]} -> {now[split][0]} (other ids, contents or order)")
    if made["skill"] != wanted["skill"]:
        lines.append(f"{'first skill' if wanted['kind'] == TRAINING else 'skill'}: {_skill(made)} -> {_skill(wanted)}")
    return lines


def _skill(identity: dict[str, Any]) -> str:
    """A skill by its name, where it has one, and the hash of its text."""
    name = identity.get("name")
    return f"{name} ({identity['skill']})" if name else str(identity["skill"])


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


def _open(root: Path, wanted: dict[str, Any], mask: Callable[[str], str], *, anew: bool = False) -> RunFolder:
    """The folder, from now on of a run as ``wanted``. ``anew`` lets a finished run go on, and takes away what an
    evaluation of something else found: until this one has ended, it would pass for its result."""
    folder = RunFolder(root, mask)
    if anew:
        folder.journal.withdraw(ENDS, ["summary.json"])
        if wanted["kind"] == EVALUATION:
            folder.remove(folder.journal.paths())
    folder.journal.set_meta("identity", json.dumps(wanted))
    return folder


def _fork(root: Path, wanted: dict[str, Any], mask: Callable[[str], str]) -> RunFolder:
    number = 1
    while True:
        beside = root.with_name(f"{root.name}-fork{number}")
        made = made_with(beside)
        same = made is not None and made["kind"] == wanted["kind"] and not difference(made, wanted)
        if same or (made is None and _is_free(beside)):
            folder = _open(beside, wanted, mask)
            folder.journal.adopt_replies(root / JOURNAL)
            return folder
        number += 1


def _is_blank(root: Path) -> bool:
    """Whether a run has no answer yet: one that never got to its model bears its name for nothing."""
    return ask(root, "SELECT 1 FROM replies LIMIT 1") is None


def _is_free(path: Path) -> bool:
    return not path.exists() or (path.is_dir() and not any(path.iterdir()))


def _digest(items: Sequence[Item]) -> str:
    rows = json.dumps([[item.id, dict(item.data)] for item in items], sort_keys=True, default=str)
    return hashlib.sha256(rows.encode()).hexdigest()[:16]
