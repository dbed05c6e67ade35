"""The Agent Skills format: names, and the check of a SKILL.md."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillopt.skill import GUIDANCE_START
from skillopt.skill.agent_format import check_skill, is_name, slug

GOOD = "---\nname: a-skill\ndescription: Does it.\n---\nBody\n"


@pytest.mark.parametrize(
    ("text", "name"), [("Search QA!", "search-qa"), ("Überprüfung", "uberprufung"), ("../..", ""), ("a" * 70, "a" * 64)]
)
def test_slugs(text: str, name: str) -> None:
    assert slug(text) == name


@given(st.text(max_size=80))
def test_a_slug_is_a_name_or_nothing(text: str) -> None:
    assert slug(text) == "" or is_name(slug(text))


@pytest.mark.parametrize(
    ("text", "level", "said"),
    [
        ("Body\n", "error", "no frontmatter"),
        ("---\nname: a-skill\nBody\n", "error", "no frontmatter"),
        ("---\n- a\n---\nBody\n", "error", "not a mapping"),
        ("---\nname: [\n---\nBody\n", "error", "not valid YAML"),
        ("---\nx: &a [1]\ny: *a\n---\nBody\n", "error", "aliases"),
        (f"---\nx: {'[' * 3000}\n---\nBody\n", "error", "not valid YAML"),
        (GOOD.replace("a-skill", "Other Skill"), "error", "'other-skill' would do"),
        (GOOD.replace("a-skill", "other"), "error", "the folder is called 'a-skill'"),
        (GOOD.replace("a-skill", "12"), "error", "name must be text"),
        (GOOD.replace("name: a-skill\n", ""), "error", "name is missing"),
        (GOOD.replace("a-skill", "my-claude"), "warning", "reserves"),
        (GOOD.replace("Does it.", ""), "error", "description is missing"),
        (GOOD.replace("Does it.", "x" * 1025), "error", "1,025 characters"),
        (GOOD.replace("Does it.", "a <b>"), "error", "angle bracket"),
        (GOOD.replace("Does it.", "[a]"), "error", "description must be text"),
        (GOOD.replace("---\nBody", "license: 3\n---\nBody"), "error", "license must be text"),
        (GOOD.replace("---\nBody", f"compatibility: {'x' * 501}\n---\nBody"), "error", "501 characters"),
        (GOOD.replace("---\nBody", "metadata: a\n---\nBody"), "error", "metadata must be a mapping"),
        (GOOD.replace("---\nBody", "metadata: {a: 1}\n---\nBody"), "warning", "metadata: a is not text"),
        (GOOD.replace("---\nBody", "allowed-tools: [Read]\n---\nBody"), "warning", "allowed-tools must be text"),
        (GOOD.replace("---\nBody", "allowed-tools: 3\n---\nBody"), "error", "allowed-tools must be text"),
        (GOOD.replace("---\nBody", "model: x\n---\nBody"), "warning", "model is no field"),
        ("\ufeff" + GOOD, "warning", "byte order mark"),
        (GOOD + "line\n" * 600, "warning", "601 lines"),
        (GOOD + "word " * 6000, "warning", "tokens; 5,000 are advised"),
        (GOOD.replace("Body\n", ""), "warning", "no instructions"),
        (GOOD + GUIDANCE_START, "warning", "marker"),
    ],
)
def test_the_check_names_each_problem(text: str, level: str, said: str) -> None:
    problems = check_skill(text, "a-skill")
    assert [problem.level for problem in problems if said in problem.message] == [level]


@pytest.mark.parametrize("eol", ["\n", "\r\n", "\r"])
def test_a_valid_skill_has_no_problem(eol: str) -> None:
    full = GOOD.replace(
        "---\nBody", "license: MIT\ncompatibility: git\nmetadata: {a: '1'}\nallowed-tools: Read\n---\nBody"
    )
    assert check_skill(full.replace("\n", eol), "a-skill") == ()
