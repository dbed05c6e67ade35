"""Files, inheritance, overrides, flags: which value counts, and what is an error."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import pytest
import yaml

from skillopt.config import Config, ConfigError, fingerprint, flatten, iter_keys, load_config
from skillopt.config.model_keys import ProviderKeys

ROOT = Path(__file__).parent.parent
SHIPPED = sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / "configs").rglob("*.yaml"))


class Files:
    """Writes configuration files into one folder and loads them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def write(self, name: str, text: str) -> Path:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return path

    def load(self, text: str, *overrides: str, **flags: Any) -> Config:
        return load_config(self.write("main.yaml", text), ["env.name=searchqa", *overrides], flags)


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files(tmp_path)


def test_structured_flat_and_mixed_files_mean_the_same(files: Files) -> None:
    structured = "train: {batch_size: 3}\nenv: {name: searchqa, limit: 5}\noptimizer: {learning_rate: 6}\n"
    flat = "batch_size: 3\nenv: searchqa\nlimit: 5\nedit_budget: 6\n"
    mixed = "train: {batch_size: 3}\nenv: searchqa\nlimit: 5\noptimizer: {learning_rate: 6}\n"
    dotted = "train.batch_size: 3\nenv.name: searchqa\nenv.limit: 5\noptimizer.learning_rate: 6\n"
    configs = {flatten(load_config(files.write("c.yaml", text)))["limit"] for text in (structured, flat, mixed, dotted)}
    assert configs == {5}
    assert len({load_config(files.write("c.yaml", text)) for text in (structured, flat, mixed, dotted)}) == 1


def test_a_structured_key_wins_over_its_flat_twin_in_one_file(files: Files) -> None:
    assert files.load("batch_size: 3\ntrain: {batch_size: 4}\n").train.batch_size == 4
    assert files.load("train: {batch_size: 4}\nbatch_size: 3\n").train.batch_size == 4


def test_the_env_section_survives_beside_its_name(files: Files) -> None:
    files.write("base.yaml", "env: {name: other, split_dir: here, workers: 3}\n")
    config = load_config(files.write("main.yaml", "_base_: base.yaml\nenv: {name: searchqa, limit: 4}\n"))
    assert (config.env.name, config.env.split_dir, config.env.workers, config.env.limit) == ("searchqa", "here", 3, 4)


@pytest.mark.parametrize("base", ["batch_size: 3", "train: {batch_size: 3}"])
@pytest.mark.parametrize("child", ["batch_size: 5", "train: {batch_size: 5}"])
def test_a_child_wins_in_whichever_shape(files: Files, base: str, child: str) -> None:
    files.write("base.yaml", base)
    assert files.load(f"_base_: base.yaml\n{child}\n").train.batch_size == 5


def test_null_in_a_child_is_a_value(files: Files) -> None:
    files.write("base.yaml", "budget: {max_calls: 7}\nenv: {split_dir: x}\nmodel: {temperature: 0.2}\n")
    config = files.load("_base_: base.yaml\nbudget: {max_calls: null}\nenv: {split_dir: ~}\nmodel: {temperature: }\n")
    assert (config.budget.max_calls, config.env.split_dir, config.model.temperature) == (None, "", None)


def test_of_several_bases_the_later_wins_and_paths_are_relative_to_their_file(files: Files) -> None:
    files.write("sub/one.yaml", "_base_: root.yaml\nbatch_size: 1\nseed: 1\n")
    files.write("sub/root.yaml", "accumulation: 9\nseed: 0\n")
    files.write("two.yaml", "_base_: sub/root.yaml\nbatch_size: 2\n")
    config = files.load("_base_: [sub/one.yaml, two.yaml]\nminibatch_size: 3\n")
    assert (config.train.batch_size, config.train.seed, config.train.accumulation) == (2, 0, 9)
    absolute = files.folder / "sub" / "one.yaml"
    assert files.load(f"_base_: {absolute}\n").train.seed == 1


def test_a_cycle_names_its_files(files: Files) -> None:
    files.write("a.yaml", "_base_: b.yaml\n")
    files.write("b.yaml", "_base_: main.yaml\n")
    with pytest.raises(ConfigError, match=r"main\.yaml -> .*a\.yaml -> .*b\.yaml -> .*main\.yaml"):
        files.load("_base_: a.yaml\n")


@pytest.mark.parametrize("base", ["[1, [2]]", "{a: b}", "['']"])
def test_a_base_that_is_no_path(files: Files, base: str) -> None:
    with pytest.raises(ConfigError, match="_base_ must be a path or a list of paths"):
        files.load(f"_base_: {base}\n")


def test_a_missing_base_is_named_with_the_file_that_wants_it(files: Files) -> None:
    with pytest.raises(ConfigError, match=r"main\.yaml: _base_ gone\.yaml: there is no such file"):
        files.load("_base_: gone.yaml\n")


def test_precedence(files: Files) -> None:
    files.write("base.yaml", "train: {batch_size: 1, seed: 1, accumulation: 1, num_epochs: 1}\n")
    main = "_base_: base.yaml\ntrain: {batch_size: 2, seed: 2, accumulation: 2}\n"
    config = files.load(main, "train.batch_size=3", "seed=3", "train.batch_size=4", batch_size="5")
    train = config.train
    assert (train.num_epochs, train.accumulation, train.seed, train.batch_size) == (1, 2, 3, 5)


def test_a_base_configuration_is_the_weakest_layer(files: Files) -> None:
    base = load_config(None, ["env.name=searchqa", "train.batch_size=3", "train.seed=3"])
    config = load_config(files.write("m.yaml", "seed: 4\n"), [], {}, base=base)
    assert (config.env.name, config.train.batch_size, config.train.seed) == ("searchqa", 3, 4)
    assert load_config(base=base) == base


def test_text_keys_keep_their_text_in_files(files: Files) -> None:
    config = files.load("split_dir: no\ndata_path: 007\nsplit_ratio: 2:1:7\nuse_gate: off\nfailure_only: yes\n")
    assert (config.env.split_dir, config.env.data_path, config.env.split_ratio) == ("no", "007", "2:1:7")
    assert (config.evaluation.use_gate, config.gradient.failure_only) == (False, True)


def test_merge_keys_and_anchors_work(files: Files) -> None:
    text = "train: &t {batch_size: 3, seed: 3}\n"
    assert files.load(f"{text}gradient: {{minibatch_size: 3}}\n").train.seed == 3
    merged = files.load("train:\n  <<: {batch_size: 5, seed: 5}\n  seed: 6\n")
    assert (merged.train.batch_size, merged.train.seed) == (5, 6)


def test_an_empty_file_a_byte_order_mark_and_windows_line_ends(files: Files) -> None:
    assert files.load("").train.batch_size == 40
    assert files.load("# nothing\n").train.batch_size == 40
    assert files.load("train:\nmodel: null\n").train.batch_size == 40
    path = files.folder / "bom.yaml"
    path.write_bytes("\ufefftrain:\r\n  batch_size: 3\r\nenv: searchqa\r\n".encode())
    assert load_config(path).train.batch_size == 3


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("train: {batch_sise: 3}", "train.batch_sise is not a known key; did you mean train.batch_size? ("),
        ("batch_sise: 3", "did you mean train.batch_size?"),
        ("learning_rate: 3", "did you mean optimizer.learning_rate?"),
        ("optimizer: {edit_budget: 3}", "did you mean optimizer.learning_rate?"),
        ("model: {batch_size: 3}", "did you mean train.batch_size?"),
        ("optimiser: {learning_rate: 3}", "optimiser is not a known section; did you mean optimizer?"),
        ("env: {a.b: 3}", "env.a.b is not a known key"),
        ("train: 3", "train is a section and must hold a mapping"),
        ("train: [1]", "train is a section and must hold a mapping"),
        ("data_path: [1]", "env.data_path must be text, got a list"),
        ("[1, 2]", "must hold a mapping"),
        ("text", "must hold a mapping"),
        ("train: {batch_size: 3", "line 1"),
        ("a: 1\na: 2", "line 2, column 1 a is given twice"),
        ("train: {seed: 1, seed: 2}", "seed is given twice"),
        ("a: !!python/object/apply:os.system [x]", "could not determine a constructor"),
        ("a: 1\n---\nb: 2", "expected a single document"),
        ("? [a]\n: 1", "unhashable"),
        pytest.param("[" * 500, "nested too deeply", id="deep"),
        ("a: \x07", "not YAML"),
    ],
)
def test_files_that_cannot_be_used(files: Files, text: str, words: str) -> None:
    with pytest.raises(ConfigError) as caught:
        files.load(text)
    assert words in str(caught.value)
    assert "main.yaml" in str(caught.value)


def test_errors_say_where_the_value_came_from(files: Files) -> None:
    with pytest.raises(ConfigError) as caught:
        files.load("batch_size: 2.5\ntrain: {seed: x}\n", "accumulation=0", "train.num_epochs=0", minibatch_size="0")
    text = str(caught.value)
    assert len(caught.value.problems) == 5
    assert "5 problems" in text
    assert "main.yaml: batch_size)" in text
    assert "train.seed must be a whole number, got x (" in text
    assert "train.accumulation must be at least 1, got 0 (override accumulation)" in text
    assert "train.num_epochs must be at least 1, got 0 (override)" in text
    assert "gradient.minibatch_size must be at least 1, got 0 (--minibatch_size)" in text


def test_unknown_keys_and_wrong_values_are_reported_together(files: Files) -> None:
    with pytest.raises(ConfigError) as caught:
        files.load("bogus: 1\nbatch_size: 0\n", "train.bogus=1", "nothing", "=1", nonsense=1)
    assert len(caught.value.problems) == 6


@pytest.mark.parametrize(
    ("override", "words"),
    [
        ("train.batch_size", "must have the form section.key=value"),
        ("", "must have the form section.key=value"),
        ("train=3", "train is a section; write train.<key>=value"),
        ("trian.batch_size=3", "did you mean train.batch_size?"),
        ("env.x=3", "env.x is not a known key"),
    ],
)
def test_overrides_that_cannot_be_used(override: str, words: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load_config(None, ["env.name=x", override])
    assert words in str(caught.value)


def test_codex_aliases(files: Files) -> None:
    for text in ("codex_bin: x", "model: {codex_path: x}", "codex_cli_bin: x"):
        assert files.load(text).model.codex_exec_path == "x"
    assert files.load("", "model.sandbox=read-only").model.codex_exec_sandbox == "read-only"
    # The canonical name wins within a file, and an alias of the child over the canonical name of the base.
    assert files.load('model: {codex_path: x, codex_exec_path: ""}') == files.load("")
    files.write("base.yaml", "model: {codex_exec_sandbox: read-only}")
    assert files.load("_base_: base.yaml\nsandbox: null\n") == files.load("")


def test_the_retired_key_is_accepted_with_one_warning(files: Files) -> None:
    files.write("base.yaml", "max_analyst_rounds: 3\n")
    main = "_base_: base.yaml\ngradient: {max_analyst_rounds: 3}\n"
    with pytest.warns(FutureWarning, match="max_analyst_rounds is retired") as caught:
        config = files.load(main, "max_analyst_rounds=2", **{"gradient.max_analyst_rounds": "3"})
    assert len(caught) == 1
    assert all(part in str(caught[0].message) for part in ("base.yaml", "main.yaml", "override", "--gradient"))
    assert config == files.load("")


@pytest.mark.parametrize(
    ("base", "overrides", "rates"),
    [
        ("min_edit_budget: 2", ["edit_budget=1"], (1, 1)),
        ("{}", ["edit_budget=1"], (1, 1)),
        ("{}", ["edit_budget=3"], (3, 2)),
        ("{}", ["edit_budget=1", "min_edit_budget=1"], (1, 1)),
        ("edit_budget: 1", [], (1, 1)),
        ("lr_scheduler: constant", ["edit_budget=1", "min_edit_budget=2"], (1, 2)),
        ("lr_control_mode: autonomous", ["edit_budget=1", "min_edit_budget=5"], (1, 5)),
        ("skill_update_mode: full_rewrite", ["edit_budget=1", "min_edit_budget=5"], (1, 5)),
    ],
)
def test_the_floor_of_the_learning_rate(files: Files, base: str, overrides: list[str], rates: tuple[int, int]) -> None:
    config = files.load(base, *overrides)
    assert (config.optimizer.learning_rate, config.optimizer.min_learning_rate) == rates


@pytest.mark.parametrize(
    ("base", "overrides"),
    [
        ("edit_budget: 1\nmin_edit_budget: 2", []),
        ("min_edit_budget: 3", ["edit_budget=2"]),
        ("edit_budget: 1", ["min_edit_budget=2"]),
        ("lr_scheduler: linear\nlr_control_mode: none", ["edit_budget=1", "min_edit_budget=2"]),
    ],
)
def test_a_floor_above_the_rate_is_an_error(files: Files, base: str, overrides: list[str]) -> None:
    with pytest.raises(ConfigError, match=r"optimizer\.min_learning_rate .* is above optimizer\.learning_rate"):
        files.load(base, *overrides)


def test_the_environment_has_no_default(files: Files) -> None:
    with pytest.raises(ConfigError, match=r"env\.name is not set"):
        load_config(files.write("m.yaml", "train: {seed: 1}"))


@pytest.mark.parametrize(
    "name", ["gone.yaml", "\0", pytest.param("x" * 5000, id="long"), "configs", "configs/../pyproject.toml"]
)
def test_a_file_that_is_not_there(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError, match="no such configuration file"):
        load_config(name)


def test_a_folder_and_a_file_that_is_not_text(files: Files) -> None:
    with pytest.raises(ConfigError, match="cannot be read"):
        load_config(files.folder)
    (files.folder / "latin.yaml").write_bytes(b"a: \xff\n")
    with pytest.raises(ConfigError, match=r"latin\.yaml: the file is not UTF-8"):
        load_config(files.folder / "latin.yaml")


def test_a_secret_of_the_environment_stays_out_of_messages() -> None:
    secret = "sk-verysecret123"
    with pytest.raises(ConfigError) as caught:
        load_config(None, [f"train.seed={secret}", f"bogus.{secret}=1"], environ={"OPENAI_API_KEY": secret})
    assert secret not in str(caught.value)
    assert "***" in str(caught.value)


@pytest.mark.parametrize("name", SHIPPED)
def test_every_shipped_configuration_loads_with_all_its_keys(name: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        load_config(ROOT / name, [], {} if "searchqa" in name else {"env": "searchqa"})


def test_the_shipped_searchqa_configuration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # found by its name from anywhere
    config = load_config("configs/searchqa/default.yaml")
    assert config.env.name == "searchqa"
    assert config.env.skill_init == "skillopt/envs/searchqa/skills/initial.md"
    assert (config.env.split_mode, config.env.split_dir) == ("split_dir", "data/searchqa_split")
    assert (config.env.workers, config.env.max_turns, config.env.exec_timeout) == (24, 1, 120)
    assert (config.train.train_size, config.train.batch_size) == (0, 40)
    assert config.model.backend == "auto"


def test_the_base_configuration_lists_every_built_key_but_those_of_providers_at_its_default() -> None:
    document = yaml.safe_load((ROOT / "configs/_base_/default.yaml").read_text(encoding="utf-8"))
    listed = {f"{section}.{name}" for section, values in document.items() for name in values}
    of_providers = {f"model.{name}" for name in ProviderKeys.model_fields}
    built = {info.dotted for info in iter_keys() if info.built} - of_providers
    assert built - listed == {"env.name", "env.skill_init", "env.split_dir", "env.data_path"}
    assert listed <= built
    loaded = load_config(ROOT / "configs/_base_/default.yaml", [], {"env": "searchqa"})
    assert loaded == load_config(None, [], {"env": "searchqa"})


def test_the_soft_gate_preset_is_a_second_base(files: Files) -> None:
    text = f"_base_: [{ROOT}/configs/searchqa/default.yaml, {ROOT}/configs/features/soft_gate.yaml]\n"
    config = files.load(text)
    assert (config.evaluation.gate_metric, config.evaluation.gate_mixed_weight) == ("soft", 0.5)
    assert config.env.split_dir == "data/searchqa_split"
    assert fingerprint(config)["evaluation.gate_metric"] == "soft"
