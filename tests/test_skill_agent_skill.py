"""A skill as a SKILL.md of other agents: its frontmatter, its name, its body."""

from __future__ import annotations

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from skillopt.skill import APPENDIX_END, APPENDIX_START, GUIDANCE_END, GUIDANCE_START, Skill
from skillopt.skill.agent_format import FrontmatterError, check_skill
from skillopt.skill.agent_skill import AgentSkill, agent_skill, choose_name, clean_body


def made(text: str, name: str = "a-skill", **more: str) -> AgentSkill:
    return agent_skill(Skill(text), name, **more)


def test_a_frontmatter_is_kept_and_completed() -> None:
    start = "---\n# mine\nlicense: MIT\nname: Old\nmetadata:\n  author: me  # kept\n"
    before = start + "description: >\n  Does\n  it.\n---\nBody\n"
    assert made(before).text == (
        "---\n# mine\nlicense: MIT\nname: a-skill\nmetadata:\n  author: me  # kept\n"
        "description: >\n  Does\n  it.\n---\n\nBody\n"
    )
    new = made(before, description="Other.").text
    assert "author: me  # kept\ndescription: Other.\n---" in new


def test_a_value_without_the_quotes_it_needs_gets_them() -> None:
    text = made("---\ndescription: Use when: asked\nname: x\n---\nBody\n").text
    assert text.startswith('---\ndescription: "Use when: asked"\nname: a-skill\n---\n')


@pytest.mark.parametrize(
    ("text", "body"),
    [
        (f"a\n\n{GUIDANCE_START}\n{GUIDANCE_END}\n", "a\n"),
        (f"a\n\n{GUIDANCE_START}\n{GUIDANCE_END}\n\nb\n", "a\n\nb\n"),
        (f"- a\n{GUIDANCE_START}\n- b\n", "- a\n- b\n"),
        (f"a {APPENDIX_END} b\n", "a  b\n"),
        (f"a\r\n{GUIDANCE_START}\r\ng\r\n{GUIDANCE_END}", "a\r\n\r\n## General guidance\r\n\r\ng\r\n"),
        (f"{APPENDIX_START}\n## Notes\n\n- n\n{APPENDIX_END}\nb", "## Notes\n\n- n\n\nb\n"),
        (f"{APPENDIX_START}\n- n\n{APPENDIX_END}", "## Execution notes\n\n- n\n"),
        (f"a\n{APPENDIX_START}\nx\n{APPENDIX_END}\n\n\nb", "a\n\n## Execution notes\n\nx\n\nb\n"),
        ("", ""),
    ],
)
def test_protected_regions_become_plain_markdown(text: str, body: str) -> None:
    assert clean_body(Skill(text)) == body


def test_line_ends_of_the_skill_are_kept() -> None:
    text = made("# Skill\r\n\r\n- r\r\n", provenance="run x").text
    assert "\n" not in text.replace("\r\n", "")


def test_a_name_is_chosen_from_the_frontmatter_first() -> None:
    assert choose_name(Skill("---\nname: My Skill\n---\n"), "other") == "my-skill"
    assert choose_name(Skill("text"), "", "Run 3") == "run-3"
    assert choose_name(Skill("text"), "..") == "trained-skill"


_markers = (GUIDANCE_START, GUIDANCE_END, APPENDIX_START, APPENDIX_END)
_yaml = ("---\n", "name: a\n", "description: b: c\n", "key: [", "&a *a\n", "\ufeff")
_markdown = ("# T\n", "- x\n", "word ", "<!-- ", "-->", "\n", "\r\n", "\x00")
_parts = st.sampled_from((*_markers, *_yaml, *_markdown))


@given(st.lists(st.one_of(_parts, st.text(max_size=6)), max_size=14).map("".join), st.text(max_size=20))
def test_whatever_a_skill_holds_its_export_is_valid_and_stays_as_it_is(text: str, description: str) -> None:
    skill = Skill(text)
    try:
        first = agent_skill(skill, "a-skill", description=description, provenance="run x")
    except FrontmatterError:
        return
    assert not [p for p in check_skill(first.text, "a-skill") if p.level == "error" and "must be" not in p.message]
    assert not any(mark in first.text for mark in (GUIDANCE_START, GUIDANCE_END, APPENDIX_START, APPENDIX_END))
    assert agent_skill(Skill(first.text), "a-skill", description=description).text == first.text
    fields = yaml.safe_load(first.text.split("---")[1])
    assert fields["name"] == "a-skill"
