"""The sample data sets that are shipped, and the script that makes them. The source package is not needed."""

from __future__ import annotations

import importlib.util
import json
import re
import sys
from collections import Counter
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from skillopt.envs.searchqa.scorer import exact_match

ROOT = Path(__file__).resolve().parent.parent
SAMPLES = ROOT / "data" / "samples"
SPLITS = ("train", "val", "test")
COUNTS = {"house-style": (24, 24, 48), "searchqa-mini": (24, 24, 72)}
DATE = re.compile(r"(\d{1,2}) ([A-Z][a-z]+) (\d{4})")


def rows(name: str, split: str) -> list[dict[str, Any]]:
    loaded: list[dict[str, Any]] = json.loads((SAMPLES / name / split / "items.json").read_text(encoding="utf-8"))
    return loaded


def countries(name: str, row: dict[str, Any]) -> set[str]:
    """The countries of the passages of a row."""
    if name == "searchqa-mini":
        return set(re.findall(r"\[TLE\] (.+?) \[PAR\]", row["context"]))
    return {row["context"].split(" lies in ")[0]}


@pytest.fixture(scope="module")
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("build_samples", ROOT / "scripts" / "build_samples.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("name", COUNTS)
def test_a_sample_set_is_whole(name: str) -> None:
    everything = [row for split in SPLITS for row in rows(name, split)]
    assert tuple(len(rows(name, split)) for split in SPLITS) == COUNTS[name]
    assert len({row["id"] for row in everything}) == len(everything)
    for row in everything:
        assert set(row) == {"id", "question", "context", "answers", "task_type"}
        assert row["question"].strip() == row["question"]
        assert not row["question"].endswith(" the")
        assert row["answers"]
        assert all(isinstance(answer, str) and answer.strip() for answer in row["answers"])


@pytest.mark.parametrize("name", COUNTS)
def test_no_country_is_in_two_splits(name: str) -> None:
    found = [set().union(*(countries(name, row) for row in rows(name, split))) for split in SPLITS]
    assert all(found)
    assert not found[0] & found[1]
    assert not found[0] & found[2]
    assert not found[1] & found[2]


@pytest.mark.parametrize("name", COUNTS)
def test_a_sample_set_is_small_and_says_where_it_comes_from(name: str) -> None:
    assert sum(path.stat().st_size for path in (SAMPLES / name).rglob("*") if path.is_file()) < 400_000
    readme = (SAMPLES / name / "README.md").read_text(encoding="utf-8")
    assert "CIA World Factbook" in readme
    assert "public domain" in readme


@pytest.mark.parametrize("split", SPLITS)
def test_house_style_has_every_kind_once_a_country_in_a_short_passage(split: str) -> None:
    kinds: dict[str, Counter[str]] = {}
    for row in rows("house-style", split):
        kinds.setdefault(row["context"], Counter())[row["task_type"]] += 1
        assert 45 <= len(row["context"].split()) <= 120
    assert all(count == Counter(("date", "name", "yes_no", "other")) for count in kinds.values())


@pytest.mark.parametrize("split", SPLITS)
def test_house_style_answers_follow_from_the_passage(split: str) -> None:
    plain = 0
    for row in rows("house-style", split):
        answer, passage = row["answers"][0], row["context"]
        if row["task_type"] == "date":
            assert answer in {f"{year} {month} {day}" for day, month, year in DATE.findall(passage)}
        elif row["task_type"] == "name":
            assert answer.startswith("Hon. ")
            assert answer.removeprefix("Hon. ") in passage
        elif row["task_type"] == "yes_no":
            assert answer in ("Yes, as stated", "No, as stated")
        elif answer != "Not stated":
            plain += 1
            assert answer in passage
    assert plain == len(rows("house-style", split)) / 8


@pytest.mark.parametrize("split", SPLITS)
def test_a_plain_answer_does_not_pass_for_one_in_the_house_style(split: str) -> None:
    """Scoring drops punctuation: what is left of the style must still differ from an answer without it."""
    for row in rows("house-style", split):
        if row["task_type"] == "date":
            year, month, day = row["answers"][0].split()
            plain = [f"{day} {month} {year}", f"{month} {day}, {year}"]
        elif row["task_type"] == "name":
            plain = [row["answers"][0].removeprefix("Hon. ")]
        elif row["task_type"] == "yes_no":
            plain = ["Yes", "No"]
        else:
            continue
        assert not any(exact_match(text, row["answers"]) for text in plain)


@pytest.mark.parametrize("split", SPLITS)
def test_searchqa_mini_answers_stand_in_the_context_once_a_clue(split: str) -> None:
    for row in rows("searchqa-mini", split):
        assert row["context"].count("[DOC]") == 4
        if row["task_type"] != "country":  # a long form of a country's name need not stand there
            assert any(answer in row["context"] for answer in row["answers"])
        else:
            assert row["answers"][0] in countries("searchqa-mini", row)


def test_the_seed_skill_does_not_give_the_style_away() -> None:
    seed = (SAMPLES / "house-style" / "seed_skill.md").read_text(encoding="utf-8")
    assert seed.strip()
    assert not any(word in seed for word in ("Hon", "stated", "year", "date"))


# -- the script --------------------------------------------------------------------------------------------------------


def record(name: str, number: int, **changes: Any) -> dict[str, Any]:
    """A made-up Factbook record."""
    yes_no = "yes" if number % 2 else "no"
    government: dict[str, Any] = {
        "Country name": {
            "conventional short form": {"text": name},
            "conventional long form": {"text": f"Republic of {name}"},
        },
        "Capital": {"name": {"text": f"{name}ville"}},
        "Independence": {"text": f"{1 + number % 28} May {1900 + number} (from the UK)"},
        "Executive branch": {
            "chief of state": {"text": f"<b>President</b> Ada LOVE{name.upper()} (since 2 June 2020)"}
        },
        "Citizenship": {
            "dual citizenship recognized": {"text": yes_no},
            "citizenship by birth": {"text": "no"},
        },
        "Legislative branch": {"legislative structure": {"text": "unicameral"}},
        "Suffrage": {"text": "18 years of age; universal"},
        "National symbol(s)": {"text": "lion, eagle"},
    }
    return {"Geography": {"Location": {"text": "Caribbean, island"}}, "Government": {**government, **changes}}


def factbook(folder: Path, count: int = 40) -> Path:
    (folder / "region").mkdir(parents=True)
    letters = "abcdefghijklmnopqrst"
    for number in range(count):
        name = f"Land{letters[number // 20]}{letters[number % 20]}"
        path = folder / "region" / f"{number:02d}.json"
        path.write_text(json.dumps(record(name, number)), encoding="utf-8")
    return folder


def files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*.json"))}


def test_the_script_makes_the_same_files_each_time(script: ModuleType, tmp_path: Path) -> None:
    source = factbook(tmp_path / "source")
    for name in ("one", "two"):
        assert script.main([str(source), str(tmp_path / name)]) == 0
    assert files(tmp_path / "one") == files(tmp_path / "two")
    made = {name: len(json.loads(data)) for name, data in files(tmp_path / "one").items()}
    assert made == {
        str(Path(name) / split / "items.json"): count
        for name, counts in COUNTS.items()
        for split, count in zip(SPLITS, counts, strict=True)
    }


def test_a_record_becomes_sentences(script: ModuleType) -> None:
    country = script.parse_country(record("Atlantis", 3), "region")
    assert script.passage_of(country) == (
        "Atlantis lies in the Caribbean. It became independent from the UK on 4 May 1903. "
        "The capital is Atlantisville. "
        "President Ada Loveatlantis took office on 2 June 2020. "
        "The country recognizes dual citizenship, but a child born there does not become a citizen by birth. "
        "The legislature is unicameral. The voting age is 18 years. The national symbol is the lion."
    )
    assert script.house_date(country.independence) == "1903 May 4"


@pytest.mark.parametrize(
    "changes",
    [
        {"Independence": {"text": "1238 (traditional date)"}},
        {"Executive branch": {"chief of state": {"text": "King CHARLES III (since 8 September 2022)"}}},
        {"Citizenship": {}},
        {"Suffrage": None},
        {"Capital": {"name": {"text": "Atlantis"}}},
        {"Legislative branch": {"legislative structure": {"text": "none"}}},
    ],
)
def test_a_record_that_needs_more_than_a_plain_sentence_is_left_out(
    script: ModuleType, changes: dict[str, Any]
) -> None:
    assert script.parse_country(record("Atlantis", 3, **changes), "region") is None


def test_a_folder_without_countries_is_refused(script: ModuleType, tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="no country files"):
        script.main([str(tmp_path), str(tmp_path / "out")])
