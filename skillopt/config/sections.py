"""The sections of the configuration but ``model``: every key, its type, its default and what it means."""

from __future__ import annotations

import re
from functools import partial
from typing import Literal

from pydantic import field_validator, model_validator

from skillopt.config.keys import Section, key
from skillopt.config.values import invalid, shown
from skillopt.spelling import did_you_mean

DEFAULT_MIN_LEARNING_RATE = 2
TRACKERS = ("mlflow", "wandb", "tensorboard")

_skill_aware = partial(key, unbuilt="it needs skill-aware reflection")
_density = partial(key, unbuilt="it needs the semantic density bonus")
_benchmark = partial(key, unbuilt="it needs a benchmark that is not built yet")
_judge = partial(key, unbuilt="it needs a judge model")
_search = partial(key, unbuilt="it needs the tools of OfficeQA")


class TrainConfig(Section):
    """How long and on what training runs."""

    num_epochs: int = key(4, "passes over the training items", on="train", ge=1)
    train_size: int = key(
        0, "number of training items that the split must have; 0 takes what is there", on="train", ge=0, null=(0,)
    )
    steps_per_epoch: int = key(
        0,
        "follows from the other keys",
        on="train",
        unbuilt="it is computed from the number of training items, train.batch_size and train.accumulation; remove it",
    )
    batch_size: int = key(40, "items in one rollout batch", on="train", ge=1)
    accumulation: int = key(1, "rollout batches that make up one optimizer step", on="train", ge=1)
    seed: int = key(42, "root of every random stream of the run", on="both")


class GradientConfig(Section):
    """Reflection on trajectories, and the merging of what the analysts propose."""

    minibatch_size: int = key(8, "trajectories that one analyst call reads", on="train", ge=1)
    merge_batch_size: int = key(8, "patches that one merge call reads", on="train", ge=2)
    analyst_workers: int = key(16, "optimizer calls in flight at most", on="train", ge=1, resume=False)
    failure_only: bool = key(False, "reflect on failures only, without the success analyst", on="train")
    max_trajectory_tokens: int = key(2000, "tokens to which one trajectory is cut in a prompt", new=True, ge=1)
    max_prompt_tokens: int = key(60000, "tokens that one prompt for the optimizer may have", new=True, ge=1)


class OptimizerConfig(Section):
    """How proposed edits become a new skill, and what happens at the end of an epoch."""

    learning_rate: int = key(4, "most edits that one step applies", flat="edit_budget", on="train", ge=1)
    min_learning_rate: int = key(
        DEFAULT_MIN_LEARNING_RATE,
        "edits that the linear and cosine schedules end at; lowered to learning_rate when only that is set and smaller",
        flat="min_edit_budget",
        on="train",
        ge=0,
    )
    lr_scheduler: Literal["constant", "linear", "cosine", "autonomous"] = key(
        "cosine", "how the edit budget changes over the steps; autonomous sets no limit", on="train"
    )
    lr_control_mode: Literal["fixed", "autonomous", "none"] = key(
        "fixed",
        "who sets the edit budget: the schedule (fixed) or the optimizer model (autonomous); none means the same as "
        "fixed, and is what a full rewrite always has",
        on="train",
        aliases={
            "manual": "fixed",
            "scheduler": "fixed",
            "scheduled": "fixed",
            "auto": "autonomous",
            "optimizer": "autonomous",
            "off": "none",
            "no_lr": "none",
        },
    )
    skill_update_mode: Literal["patch", "rewrite_from_suggestions", "full_rewrite_minibatch"] = key(
        "patch",
        "edits to the skill (patch), one rewrite guided by suggestions, or a whole new skill from each minibatch",
        on="train",
        aliases={
            "edits": "patch",
            "rewrite": "rewrite_from_suggestions",
            "suggestions": "rewrite_from_suggestions",
            "rewrite_suggestions": "rewrite_from_suggestions",
            "full_rewrite": "full_rewrite_minibatch",
            "minibatch_full_rewrite": "full_rewrite_minibatch",
            "skill_rewrite_minibatch": "full_rewrite_minibatch",
        },
    )
    meta_learning_rate: int | None = key(
        None,
        "a key without an effect",
        flat="meta_edit_budget",
        unbuilt="the published trainer reads it and never uses it; remove it",
    )
    use_slow_update: bool = key(True, "write guidance into the skill at the end of an epoch", on="train")
    slow_update_samples: int = key(20, "training items that are compared across two epochs", on="train", ge=1)
    slow_update_gate_with_selection: bool = key(True, "keep new guidance only if the gate accepts it")
    longitudinal_pair_policy: Literal["mixed", "changed", "unchanged"] = key(
        "mixed",
        "which of the compared items the slow update sees: all, those whose outcome changed, or those that kept it",
        on="train",
        aliases={
            "default": "mixed",
            "random": "mixed",
            "all": "mixed",
            "change": "changed",
            "delta": "changed",
            "10_01": "changed",
            "01_10": "changed",
            "stable": "unchanged",
            "same": "unchanged",
            "00_11": "unchanged",
        },
    )
    use_meta_skill: bool = key(True, "keep notes for the optimizer from one epoch to the next", on="train")
    use_skill_aware_reflection: bool = _skill_aware(
        False, "tell defects of the skill from lapses of the target", on="train"
    )
    skill_aware_appendix_source: Literal["both", "failure_only"] = _skill_aware(
        "both", "where the notes of the appendix come from", on="train"
    )
    skill_aware_consolidate_threshold: int = _skill_aware(
        0, "number of notes above which the appendix is shortened", on="train"
    )

    @model_validator(mode="after")
    def _settle(self) -> OptimizerConfig:
        """Sets what follows from another key, and checks the two ends of a schedule that decays."""
        full_rewrite = self.skill_update_mode == "full_rewrite_minibatch"
        if full_rewrite:
            object.__setattr__(self, "lr_control_mode", "none")  # it replaces the skill: there are no edits to budget
        if "min_learning_rate" not in self.model_fields_set:
            floor = min(self.min_learning_rate, self.learning_rate)
            object.__setattr__(self, "min_learning_rate", floor)
        decays = self.lr_scheduler in ("linear", "cosine") and self.lr_control_mode != "autonomous"
        if decays and not full_rewrite and self.min_learning_rate > self.learning_rate:
            raise invalid(
                f"optimizer.min_learning_rate ({self.min_learning_rate}) is above optimizer.learning_rate "
                f"({self.learning_rate}), which the {self.lr_scheduler} schedule starts from"
            )
        return self


class EvaluationConfig(Section):
    """The validation gate and the final test."""

    use_gate: bool = key(True, "accept a candidate only if it scores better on the selection items", on="train")
    gate_rule: Literal["strict"] = key(
        "strict",
        "strict: the candidate's mean must be higher than the current skill's",
        new=True,
        later={"paired": "it needs the paired gate", "sequential": "it needs the sequential gate"},
    )
    gate_metric: Literal["hard", "soft", "mixed"] = key("hard", "score that the gate compares")
    gate_mixed_weight: float = key(0.5, "weight of the soft score in the mixed metric", ge=0, le=1)
    use_semantic_density: bool = _density(False, "add a bonus for leading words to the gate score")
    semantic_density_weight: float = _density(0.05, "size of that bonus")
    leading_words: tuple[str, ...] | None = _density(None, "the words that earn it")
    sel_env_num: int = key(0, "selection items, the first of the split; 0 takes all", on="train", ge=0, null=(0,))
    test_env_num: int = key(
        0, "test items (of eval: items of the chosen split), the first ones; 0 takes all", on="both", ge=0, null=(0,)
    )
    eval_test: bool = key(True, "score the first, the best and the last skill on the test split at the end", on="train")


class EnvConfig(Section):
    """The benchmark, its data, and how a target works on an item."""

    name: str = key("", "name of the environment, such as searchqa", flat="env", flag="env", on="both")
    skill_init: str = key("", "file with the skill that training starts from", on="train", resume=False)
    out_root: str = key("", "run folder; blank makes a new one below outputs/", on="both", resume=False)
    split_mode: Literal["ratio", "split_dir"] = key(
        "ratio", "cut one data file into splits (ratio), or read a folder that has them (split_dir)", on="both"
    )
    split_ratio: str = key("2:1:7", "train:val:test, in parts", on="both")
    split_seed: int = key(42, "seed of the shuffle before the cut", on="both")
    split_dir: str = key("", "folder with train/, val/ and test/", on="both", resume=False)
    data_path: str = key("", "data file to cut into splits", on="both", resume=False)
    split_output_dir: str = key(
        "", "where the cut splits are written; blank writes below the run folder", on="both", resume=False
    )
    exec_timeout: float = key(120.0, "seconds that the target has for one call", gt=0)
    limit: int = key(0, "use only the first items of every split; 0 uses all", on="both", ge=0, null=(0,))
    workers: int = key(16, "target calls in flight at most", on="both", ge=1, resume=False)
    max_turns: int = key(1, "turns that the target has for one item", on="both", only=(1,))
    max_completion_tokens: int | None = key(16384, "cap of the target's completion tokens; null sends none", ge=1)
    force_answer_tag: bool = key(
        False, "make the target close its answer tag, by a grammar, where the provider can", new=True
    )
    max_steps: int | None = _benchmark(None, "steps of an episode", on="train")
    max_api_workers: int | None = _benchmark(None, "model calls in flight of a simulator", on="both", resume=False)
    mode: str = _benchmark("", "how a spreadsheet task is solved", on="both")
    data_root: str = _benchmark("", "folder with the files that the items name", on="both")
    image_detail: str = _benchmark("auto", "detail at which images are sent", on="train")
    shuffle_choices: bool | None = _benchmark(None, "shuffle the choices of a question", on="train")
    use_theorem: bool = _benchmark(False, "show the theorem of an item", on="train")
    use_sketch: bool = _benchmark(False, "show the proof sketch of an item", on="train")
    data_dirs: tuple[str, ...] | None = _search(None, "folders of the document corpus")
    search_mode: str = _search("", "where documents are looked up")
    search_auth_env: str = _search("", "environment variable that holds the token of a search service")
    use_local_tools: bool | None = _search(None, "give the target tools on local documents")
    max_tool_turns: int | None = _search(None, "rounds of tool calls for one item")
    max_queries_per_turn: int | None = _search(None, "search queries in one round")
    judge_model: str = _judge("", "model that judges answers", on="train")
    judge_max_completion_tokens: int | None = _judge(None, "cap of the judge's completion tokens", on="train")
    judge_retries: int | None = _judge(None, "attempts of a judge call", on="train")

    @field_validator("split_ratio")
    @classmethod
    def _three_parts(cls, value: str) -> str:
        parts = [part.strip() for part in value.split(":")]
        if len(parts) != 3 or not all(re.fullmatch(r"0*[1-9][0-9]{0,8}", part) for part in parts):
            raise invalid(f'must be three positive whole numbers such as "2:1:7", got {shown(value)}')
        return ":".join(str(int(part)) for part in parts)


class RuntimeConfig(Section):
    """How the run itself behaves; nothing here changes a result."""

    resume_policy: Literal["strict", "fork", "force"] = key(
        "strict",
        "what to do with a run folder whose configuration differs: refuse, go on in a new folder beside it, or go on",
        new=True,
        flag="resume-policy",
        on="both",
        resume=False,
    )
    max_error_rate: float = key(
        0.3,
        "share of the items of a pass that may fail for other reasons than a wrong answer before the run ends",
        new=True,
        resume=False,
        ge=0,
        le=1,
    )


class BudgetConfig(Section):
    """Caps on what a run may spend, over all its processes. null is no cap, 0 allows nothing."""

    max_calls: int | None = key(None, "requests, probes and retries included", new=True, ge=0, resume=False)
    max_tokens: int | None = key(None, "prompt and completion tokens", new=True, ge=0, resume=False)
    max_usd: float | None = key(None, "US dollars; every model needs a known price", new=True, ge=0, resume=False)
    max_seconds: float | None = key(None, "wall-clock seconds", new=True, ge=0, resume=False)
    prices: str = key(
        "", "file with prices of models, which count before those that SkillOpt knows", new=True, resume=False
    )


class LoggingConfig(Section):
    """What is written beside the results."""

    predictions: Literal["train", "all", "none"] = key(
        "train", "rollouts whose conversation is written below predictions/", new=True, resume=False
    )
    trackers: tuple[str, ...] = key(
        (),
        "where a training's numbers and texts go besides the run folder: mlflow, wandb, tensorboard, or several",
        new=True,
        resume=False,
        null=((),),
    )
    tracker_prefix: str = key("skillopt/", "what every name in a tracker begins with", new=True, resume=False)

    @field_validator("trackers")
    @classmethod
    def _known_trackers(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        names = tuple(dict.fromkeys(name.casefold() for name in value))
        for name in names:
            if name not in TRACKERS:
                hint = did_you_mean(name, TRACKERS)
                raise invalid(f"must hold none but {', '.join(TRACKERS)}; got {shown(name)}{hint}")
        return names

    @field_validator("tracker_prefix")
    @classmethod
    def _in_any_name(cls, value: str) -> str:
        parts = value.removesuffix("/").split("/")
        if value and not all(re.fullmatch(r"[\w.-]+", part, re.ASCII) and part.strip(".") for part in parts):
            raise invalid(f"takes letters, digits and _ - . with single slashes between them, got {shown(value)}")
        return value
