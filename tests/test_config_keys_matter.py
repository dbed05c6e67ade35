"""Every key of the configuration changes something that can be seen, or is refused by name. None is ignored."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from fakes import trackers
from fakes.folders import read_json, rows
from fakes.world import DEFAULTS, ENVIRON, Call, Played, World, prepared, run

from skillopt.config import ConfigError, KeyInfo, iter_keys, load_config
from skillopt.engine.prepare import Prepared, prepare_training, write_splits
from skillopt.engine.session import Ending
from skillopt.models.errors import ModelError
from skillopt.types import Role


@dataclass(frozen=True)
class Trained:
    """A run of the small world: what it was prepared with, what it asked, how it ended, what it left."""

    ready: Prepared
    world: World
    ending: Ending
    root: Path

    @property
    def rows(self) -> list[dict[str, Any]]:
        return rows(self.root)

    def asked(self, stage: str) -> Call:
        return self.world.of(stage)[0]

    def file(self, name: str) -> Any:
        return read_json(self.root / name)


Observe = Callable[[Path, Mapping[str, Any]], Any]


def training(view: Callable[[Trained], Any], *, slow: bool = False, **scripts: Any) -> Observe:
    """Trains in the small world and looks. ``slow``: every call takes a second, so that calls meet."""

    def observe(folder: Path, overrides: Mapping[str, Any]) -> Any:
        world = World(scripts=scripts, latency=lambda call: 1.0 if slow else 0.0)
        root = folder / "run"
        ready = prepared(world, root, overrides)
        ending = run(world, root, overrides)
        return view(Trained(ready, world, ending, ending.root))

    return observe


def roles(view: Callable[[Prepared], Any]) -> Observe:
    """Only prepares a run of the small world."""
    return lambda folder, overrides: view(prepared(World(), folder / "run", overrides))


def searchqa(view: Callable[[Prepared], Any]) -> Observe:
    """Prepares a run of SearchQA on a file of 20 rows, or on a folder of splits."""

    def observe(folder: Path, overrides: Mapping[str, Any]) -> Any:
        data = [{"id": f"q{n}", "question": f"q {n}?", "context": "text", "answers": ["a"]} for n in range(20)]
        (folder / "all.json").write_text(json.dumps(data), encoding="utf-8")
        for name, part in (("small", data[:6]), ("other", data[6:12])):
            for number, split in enumerate(("train", "val", "test")):
                (folder / name / split).mkdir(parents=True, exist_ok=True)
                text = json.dumps(part[number * 2 : number * 2 + 2])
                (folder / name / split / "items.json").write_text(text, encoding="utf-8")
        (folder / "one.md").write_text("# One\n", encoding="utf-8")
        flags = {**DEFAULTS, "env.name": "searchqa", "env.out_root": str(folder / "run"), "env.data_path": "all.json"}
        filled = {
            key: str(folder / value) if key in _PATHS and value else value
            for key, value in {**flags, **overrides}.items()
        }
        return view(prepare_training(load_config(None, (), filled), ENVIRON))

    return observe


_PATHS = ("env.data_path", "env.split_dir", "env.split_output_dir", "env.skill_init")


def priced(folder: Path, overrides: Mapping[str, Any]) -> Any:
    """Prepares a run of the small world, whose models only a file of ours has prices for."""
    (folder / "prices.yaml").write_text("prices: {openai: {small-target: {input: 1, output: 2}}}\n", encoding="utf-8")
    given = {key: str(folder / value) if key == "budget.prices" else value for key, value in overrides.items()}
    return prepared(World(), folder / "run", given).prices


def tracked(folder: Path, overrides: Mapping[str, Any]) -> Any:
    """Trains in the small world, with MLflow installed, and looks at the names of the numbers that it got."""
    with pytest.MonkeyPatch.context() as patch:
        fake = trackers.mlflow(patch)
        run(World(), folder / "run", overrides)
        return sorted({name for logged in fake.runs.values() for name, _, _ in logged.metrics})


def ids(ready: Prepared) -> dict[str, list[str]]:
    return {split: [item.id for item in items] for split, items in ready.items.items()}


def splits_written(ready: Prepared) -> bool:
    write_splits(ready.env, Path(ready.config.env.out_root))
    return any(Path(ready.config.env.out_root).parent.glob("cut/**/*.json"))


def again_with_another_seed(folder: Path, overrides: Mapping[str, Any]) -> Any:
    run(World(), folder / "run", {"budget.max_calls": 20})
    return run(World(), folder / "run", {"train.seed": 7, **overrides}).root.name


def failing_item(system: str, user: str) -> Played:
    return ModelError("provider", "down") if "VA-000" in user else None


def half_better(system: str, user: str) -> Played:
    edits = [{"op": "append", "target": "", "content": "- rule: bravo always"}]
    return {"batch_size": 1, "failure_summary": [], "patch": {"reasoning": "", "edits": edits}}


def four_edits(system: str, user: str) -> Played:
    edits = [{"op": "append", "target": "", "content": f"- rule {number}"} for number in range(4)]
    return {"batch_size": 1, "failure_summary": [], "patch": {"reasoning": "", "edits": edits}}


def noise(system: str, user: str) -> Played:
    return {"slow_update_content": "Make noise."}


@dataclass(frozen=True)
class Case:
    """``value`` in place of the default (or of what ``base`` has) makes ``observe`` see something else, or raise."""

    value: Any
    observe: Observe
    base: Mapping[str, Any] = field(default_factory=dict)


BIG = {"train.batch_size": 6, "gradient.minibatch_size": 1}
HERE = {"model.base_url": "http://127.0.0.1:9/v1"}
REWRITE = {"optimizer.skill_update_mode": "rewrite_from_suggestions"}
SPLIT_DIR = {"env.split_mode": "split_dir", "env.split_dir": "small"}


def served(role: Role, backend: str, value: Any, **base: Any) -> Case:
    """What is settled about a role at a provider, its key included."""

    def view(ready: Prepared) -> Any:
        found = ready.roles[role]
        return found, found.api_key

    return Case(value, roles(view), {f"model.{role}_backend": backend, **{f"model.{k}": v for k, v in base.items()}})


AZURE = {"azure_openai_endpoint": "https://a.openai.azure.com", "azure_openai_api_key": "azure-key"}
AZURE_VALUES = {
    "endpoint": ("https://b.openai.azure.com", {}),
    "api_version": ("2099-01-01", {}),
    "api_key": ("other-key", {}),
    "auth_mode": ("compat", {}),
    "ad_scope": ("https://other/.default", {"azure_openai_auth_mode": "azure_cli"}),
    "managed_identity_client_id": ("someone", {"azure_openai_auth_mode": "aad"}),
}
QWEN_VALUES = {
    "base_url": "http://q:1/v1",
    "api_key": "qwen-key",
    "temperature": "none",
    "timeout_seconds": 7.0,
    "max_tokens": 99,
    "enable_thinking": True,
    "thinking_mode": "disabled",
}
MINIMAX = {"minimax_api_key": "minimax-key"}
MINIMAX_VALUES = {
    "region": "cn_zh",
    "base_url": "http://m:1/v1",
    "api_key": "other-key",
    "model": "MiniMax-M9",
    "temperature": "0.1",
    "max_tokens": 99,
    "enable_thinking": True,
}
PROGRAM_VALUES = {
    "codex_exec": {
        "path": "/bin/other",
        "sandbox": "read-only",
        "profile": "p",
        "full_auto": True,
        "reasoning_effort": "high",
        "use_sdk": "true",
        "network_access": True,
        "web_search": True,
        "approval_policy": "on-request",
    },
    "claude_code_exec": {
        "path": "/bin/other",
        "profile": "p",
        "use_sdk": "true",
        "effort": "high",
        "max_thinking_tokens": 99,
    },
    "cursor_exec": {"path": "/bin/other", "sandbox": "disabled"},
    "copilot_exec": {"path": "/bin/other", "home": "/home/x", "allow_all_tools": True},
}
BOTH: tuple[Role, ...] = ("optimizer", "target")

PROVIDER_CASES: dict[str, Case] = {
    **{
        f"model.azure_{name}": served(
            "target", "azure", value, **{k: v for k, v in AZURE.items() if not k.endswith(name)}
        )
        for name, (value, _) in list(AZURE_VALUES.items())[:3]
    },
    **{
        f"model.{prefix}azure_openai_{name}": served(role, "azure", value, **AZURE, **more)
        for role in BOTH
        for prefix in ("", f"{role}_")
        for name, (value, more) in AZURE_VALUES.items()
    },
    **{
        f"model.{prefix}qwen_chat_{name}": served(role, "qwen", value)
        for role in BOTH
        for prefix in ("", f"{role}_")
        for name, value in QWEN_VALUES.items()
    },
    "model.qwen_chat_use_max_completion_tokens": served("target", "qwen", True),
    **{
        f"model.minimax_{name}": served("target", "minimax", value, target="gpt-5.5", **MINIMAX)
        for name, value in MINIMAX_VALUES.items()
    },
    **{
        f"model.{role}_minimax_{name}": served(role, "minimax", MINIMAX_VALUES[name], **MINIMAX)
        for role in BOTH
        for name in ("base_url", "api_key")
    },
    **{
        f"model.{prefix}anthropic_thinking_tokens": served(
            role, "anthropic", 2048, **{f"{role}_base_url": "http://a:1"}
        )
        for role in BOTH
        for prefix in ("", f"{role}_")
    },
    **{
        f"model.{backend}_{name}": served("target", backend, value)
        for backend, values in PROGRAM_VALUES.items()
        for name, value in values.items()
    },
    **{
        f"model.copilot_chat_{role}_model": served(role, "copilot_chat", "some-model", **{role: "gpt-5.5"})
        for role in BOTH
    },
    "model.copilot_chat_timeout": served("target", "copilot_chat", 7.0),
}

CASES: dict[str, Case] = {
    **PROVIDER_CASES,
    "model.backend": Case("openai_compatible", roles(lambda r: r.roles["target"].spec.provider), HERE),
    "model.optimizer": Case("other", roles(lambda r: r.roles["optimizer"].spec.model)),
    "model.target": Case("other", roles(lambda r: r.roles["target"].spec.model)),
    "model.optimizer_backend": Case("openai_compatible", roles(lambda r: r.roles["optimizer"].spec.provider), HERE),
    "model.target_backend": Case("openai_compatible", roles(lambda r: r.roles["target"].spec.provider), HERE),
    "model.base_url": Case("http://127.0.0.1:8/v1", roles(lambda r: r.roles["target"].spec.base_url)),
    "model.optimizer_base_url": Case("http://127.0.0.1:8/v1", roles(lambda r: r.roles["optimizer"].spec.base_url)),
    "model.target_base_url": Case("http://127.0.0.1:8/v1", roles(lambda r: r.roles["target"].spec.base_url)),
    "model.temperature": Case(0.5, roles(lambda r: [role.spec.temperature for role in r.roles.values()])),
    "model.optimizer_temperature": Case(0.5, roles(lambda r: r.roles["optimizer"].spec.temperature)),
    "model.target_temperature": Case(0.5, roles(lambda r: r.roles["target"].spec.temperature)),
    "model.api": Case("responses", roles(lambda r: r.roles["target"].profile.protocol)),
    "model.timeout_seconds": Case(7.0, training(lambda t: t.asked("analyst").request.timeout)),
    "model.reply_style": Case("compact", training(lambda t: t.asked("analyst").system)),
    "model.reasoning_effort": Case("high", training(lambda t: t.asked("analyst").request.reasoning_effort)),
    "model.rewrite_reasoning_effort": Case(
        "low", training(lambda t: t.asked("rewrite").request.reasoning_effort), REWRITE
    ),
    "model.rewrite_max_completion_tokens": Case(99, training(lambda t: t.asked("rewrite").request.max_tokens), REWRITE),
    "train.num_epochs": Case(3, training(lambda t: len(t.rows))),
    "train.train_size": Case(99, roles(lambda r: len(r.items["train"]))),
    "train.batch_size": Case(2, training(lambda t: [row["rollout_n"] for row in t.rows])),
    "train.accumulation": Case(2, training(lambda t: [len(row["accumulation_batches"]) for row in t.rows])),
    "train.seed": Case(7, training(lambda t: [call.code for call in t.world.of("rollout", "train")])),
    "gradient.minibatch_size": Case(3, training(lambda t: len(t.world.of("analyst")))),
    "gradient.merge_batch_size": Case(2, training(lambda t: len(t.world.of("merge"))), BIG),
    "gradient.analyst_workers": Case(1, training(lambda t: t.world.peaks["optimizer"], slow=True), BIG),
    "gradient.failure_only": Case(
        True, training(lambda t: any('"success_patterns"' in call.system for call in t.world.of("analyst")))
    ),
    "gradient.max_trajectory_tokens": Case(20, training(lambda t: t.rows[0]["trimmed"])),
    "gradient.max_prompt_tokens": Case(800, training(lambda t: t.rows[0]["trimmed"])),
    "optimizer.learning_rate": Case(1, training(lambda t: t.rows[0]["edit_budget"])),
    "optimizer.min_learning_rate": Case(
        2, training(lambda t: [row["edit_budget"] for row in t.rows], analyst=four_edits)
    ),
    "optimizer.lr_scheduler": Case(
        "constant", training(lambda t: [row["edit_budget"] for row in t.rows], analyst=four_edits)
    ),
    "optimizer.lr_control_mode": Case("autonomous", training(lambda t: len(t.world.of("lr_autonomous")))),
    "optimizer.skill_update_mode": Case("rewrite", training(lambda t: len(t.world.of("rewrite")))),
    "optimizer.use_slow_update": Case(False, training(lambda t: len(t.world.of("slow_update")))),
    "optimizer.slow_update_samples": Case(
        2, training(lambda t: len(t.file("slow_update/epoch_02/comparison_pairs.json")))
    ),
    "optimizer.slow_update_gate_with_selection": Case(
        False, training(lambda t: t.file("slow_update/epoch_02/slow_result.json")["action"], slow_update=noise)
    ),
    "optimizer.longitudinal_pair_policy": Case(
        "changed",
        training(lambda t: {pair["category"] for pair in t.file("slow_update/epoch_02/comparison_pairs.json")}),
    ),
    "optimizer.use_meta_skill": Case(False, training(lambda t: len(t.world.of("meta_skill")))),
    "evaluation.use_gate": Case(False, training(lambda t: t.rows[0]["action"])),
    "evaluation.gate_rule": Case("paired", training(lambda t: t.rows[0]["gate"]["rule"])),
    "evaluation.gate_metric": Case("soft", training(lambda t: t.rows[0]["candidate_gate_score"])),
    "evaluation.gate_mixed_weight": Case(
        0.9,
        training(lambda t: t.rows[0]["candidate_gate_score"], analyst=half_better),
        {"evaluation.gate_metric": "mixed"},
    ),
    "evaluation.sel_env_num": Case(2, training(lambda t: t.ending.summary["selection_n"])),
    "evaluation.test_env_num": Case(2, training(lambda t: t.ending.summary["test_n"])),
    "evaluation.eval_test": Case(False, training(lambda t: t.ending.summary["test_hard"])),
    "env.name": Case("nowhere", searchqa(lambda r: r.env.name)),
    "env.skill_init": Case("one.md", searchqa(lambda r: r.skill.text)),
    "env.out_root": Case("elsewhere", training(lambda t: (t.ending.root.name, len(t.rows)))),
    "env.split_mode": Case("split_dir", searchqa(ids), {"env.split_dir": "small"}),
    "env.split_ratio": Case("1:1:1", searchqa(ids)),
    "env.split_seed": Case(7, searchqa(ids)),
    "env.split_dir": Case("other", searchqa(ids), SPLIT_DIR),
    "env.data_path": Case("nowhere.json", searchqa(ids)),
    "env.split_output_dir": Case("cut", searchqa(splits_written)),
    "env.exec_timeout": Case(7.0, training(lambda t: t.asked("rollout").request.timeout)),
    "env.limit": Case(1, searchqa(ids)),
    "env.workers": Case(1, training(lambda t: t.world.peaks["target"], slow=True), BIG),
    "env.max_turns": Case(2, training(lambda t: t.ending.reason)),
    "env.max_completion_tokens": Case(99, training(lambda t: t.asked("rollout").request.max_tokens)),
    "env.force_answer_tag": Case(True, searchqa(lambda r: r.env.prompt(r.items["train"][0]).grammar)),
    "runtime.resume_policy": Case("fork", again_with_another_seed),
    "runtime.max_error_rate": Case(0.1, training(lambda t: t.ending.reason, rollout=failing_item)),
    "budget.max_calls": Case(10, training(lambda t: t.ending.reason)),
    "budget.max_tokens": Case(10, training(lambda t: t.ending.reason)),
    "budget.max_usd": Case(0.5, roles(lambda r: r.steps)),
    "budget.prices": Case("prices.yaml", priced),
    "budget.max_seconds": Case(0, training(lambda t: t.ending.reason)),
    "logging.trackers": Case(["mlflow"], tracked),
    "logging.tracker_prefix": Case("lab/", tracked, {"logging.trackers": ["mlflow"]}),
    "logging.predictions": Case("all", training(lambda t: len(list(t.root.rglob("conversation.json"))))),
}

BUILT = [info for info in iter_keys() if info.built]
UNBUILT = [info for info in iter_keys() if not info.built]


def name(info: KeyInfo) -> str:
    return info.dotted


def test_the_table_holds_every_key_and_no_other() -> None:
    assert set(CASES) == {info.dotted for info in BUILT}, "a key of the schema needs an entry here"


def outcome(observe: Observe, folder: Path, overrides: Mapping[str, Any]) -> str:
    """What is seen, or the error that is met."""
    folder.mkdir()
    try:
        return repr(observe(folder, overrides))
    except (ValueError, OSError) as error:
        return f"refused: {error}".replace(str(folder), "")


@pytest.mark.parametrize("info", BUILT, ids=name)
def test_every_built_key_changes_what_can_be_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, info: KeyInfo
) -> None:
    monkeypatch.chdir(tmp_path)
    case = CASES[info.dotted]
    default = case.base.get(info.dotted, DEFAULTS.get(info.dotted, info.default))
    assert case.value != default
    before = outcome(case.observe, tmp_path / "before", case.base)
    after = outcome(case.observe, tmp_path / "after", {**case.base, info.dotted: case.value})
    assert before.replace(str(tmp_path / "before"), "") != after.replace(str(tmp_path / "after"), "")
    if after.startswith("refused") and info.dotted != "env.data_path":
        assert info.dotted in after or str(case.value) in after, "a refusal names the key or the value"


def other(info: KeyInfo) -> Any:
    """A value that is not the default of a key."""
    kind = info.kind
    if kind.base == "bool":
        return info.default is not True
    if kind.base in ("int", "float"):
        return (info.default or 0) + 7
    if kind.base == "choice":
        return next(choice for choice in kind.choices if choice != info.default)
    return ["something-else"] if kind.base == "list" else "something-else"


@pytest.mark.parametrize("info", UNBUILT, ids=name)
def test_every_key_that_is_not_built_is_refused_by_name(info: KeyInfo) -> None:
    load_config(
        None, (), {"env.name": "world", info.dotted: info.default} if info.default is not None else {"env.name": "w"}
    )
    with pytest.raises(ConfigError) as refused:
        load_config(None, (), {"env.name": "world", info.dotted: other(info)})
    assert str(refused.value).startswith(f"{info.dotted} ")
    assert "not available in this version" in str(refused.value)


@pytest.mark.parametrize(
    ("dotted", "choice"), [(info.dotted, choice) for info in BUILT for choice in info.rules.later], ids=str
)
def test_every_choice_that_is_not_built_is_refused_by_name(dotted: str, choice: str) -> None:
    with pytest.raises(ConfigError) as refused:
        load_config(None, (), {"env.name": "world", dotted: choice})
    assert dotted in str(refused.value)
    assert choice in str(refused.value) or "not available" in str(refused.value)


def test_a_key_that_does_not_exist_is_refused_with_the_one_that_was_meant() -> None:
    with pytest.raises(ConfigError, match=r"train.batchsize.*did you mean train.batch_size\?"):
        load_config(None, (), {"env.name": "world", "train.batchsize": 3})
