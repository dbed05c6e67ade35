from __future__ import annotations

import hashlib
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillopt.skill import GUIDANCE_END, GUIDANCE_START, Skill
from skillopt.skill.document import APPENDIX_END, APPENDIX_HEADING, APPENDIX_START, MARKERS, frontmatter_length, scrub

GS, GE, AS, AE = MARKERS
FRONT = "---\nname: search\ndescription: how to search\n---\n"
GUIDANCE = f"{GS}\nCheck units.\n{GE}"
APPENDIX = f"{AS}\n{APPENDIX_HEADING}\n- note one\n{AE}"

PIECES = st.sampled_from(
    [
        *MARKERS,
        "---\n",
        "name: x\n",
        "---",
        "\n",
        "\r\n",
        "\r",
        "\n\n",
        "  ",
        "- a",
        "# H",
        "word",
        "<!-- SLOW_",
        "\ufeff",
    ]
)
TEXTS = st.lists(st.one_of(PIECES, st.text(max_size=8)), max_size=14).map("".join)


def kinds(text: str) -> list[str]:
    return [segment.kind for segment in Skill(text).segments]


@given(TEXTS)
def test_segments_are_the_text_without_gaps(text: str) -> None:
    segments = Skill(text).segments
    assert "".join(segment.text for segment in segments) == text
    assert [segment.start for segment in segments] == [0, *(segment.end for segment in segments)][: len(segments)]
    assert all(segment.text for segment in segments)


@given(TEXTS)
def test_body_holds_no_marker(text: str) -> None:
    for segment in Skill(text).segments:
        if segment.kind == "body":
            assert not any(marker in segment.text for marker in MARKERS)


def test_hash_is_the_start_of_the_sha256_of_the_text() -> None:
    text = "Größe\r\n"
    assert Skill(text).hash == hashlib.sha256(text.encode("utf-8")).hexdigest()[:16]
    assert Skill("").hash == "e3b0c44298fc1c14"


def test_bytes_lose_a_byte_order_mark_and_keep_line_ends() -> None:
    assert Skill.from_bytes(b"\xef\xbb\xbfa\r\nb\n").text == "a\r\nb\n"
    assert Skill("a\r\nb\n").to_bytes() == b"a\r\nb\n"


def test_parts_of_a_full_skill() -> None:
    skill = Skill(f"{FRONT}\n# Rules\n\n- a\n\n{GUIDANCE}\n\n{APPENDIX}\n")
    assert skill.frontmatter == FRONT
    assert skill.body.split() == ["#", "Rules", "-", "a"]
    assert skill.guidance == "Check units."
    assert skill.appendix == f"{APPENDIX_HEADING}\n- note one"
    assert kinds(skill.text) == ["frontmatter", "body", "guidance", "body", "appendix", "body"]


def test_a_skill_without_parts() -> None:
    for text in ("", "# Rules\n"):
        skill = Skill(text)
        assert (skill.frontmatter, skill.body, skill.guidance, skill.appendix) == ("", text, None, None)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (f"{GS}{GE}", ["guidance"]),
        (f"{GS}", ["marker"]),
        (f"a{GE}b", ["body", "marker", "body"]),
        (f"{GE}{GS}", ["marker", "marker"]),
        (f"{GS}a{GS}b{GE}", ["marker", "body", "guidance"]),
        (f"{GS}a{GE}b{GE}", ["guidance", "body", "marker"]),
        (f"{GS}a{AS}b{AE}c{GE}", ["marker", "body", "appendix", "body", "marker"]),
        (f"{GS}a{AE}", ["marker", "body", "marker"]),
        (f"{GUIDANCE}\n{GUIDANCE}", ["guidance", "body", "guidance"]),
        (f"{APPENDIX}\n{GUIDANCE}", ["appendix", "body", "guidance"]),
        (f"---\nname: {GS}\n---\n", ["body", "marker", "body"]),
    ],
)
def test_markers_make_a_region_only_as_neighbours(text: str, expected: list[str]) -> None:
    assert kinds(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "---\nname: x\n---",
        "---\nname: x\n---\n",
        "---  \r\nname: x\r\ntags:\r\n  - a\r\n- b\r\n# comment\r\n\r\nempty:\r\n---\t\r\n",
        '---\n"quoted key": 1\n---\n',
        "---\ndescription: |\n  # Not a heading\n  text\n---\n",
        "\ufeff---\nname: x\n---\n",
    ],
)
def test_frontmatter(text: str) -> None:
    assert frontmatter_length(text) == len(text)
    after = text if text[-1:] in "\r\n" else text + "\n"
    assert Skill(after + "Body\n").frontmatter == after


@pytest.mark.parametrize(
    "text",
    [
        "",
        "---",
        "---\n---\n",
        "---\n\n# Title\n\n---\ntext\n",
        "---\nSome prose here.\n---\n",
        "---\nname: x\n",
        "\n---\nname: x\n---\n",
        "--- x\nname: x\n---\n",
        "----\nname: x\n----\n",
    ],
)
def test_not_frontmatter(text: str) -> None:
    assert frontmatter_length(text) == 0


@pytest.mark.parametrize(
    ("text", "ending"),
    [
        ("", "\n"),
        ("a", "\n"),
        ("a\nb", "\n"),
        ("a\r\nb", "\r\n"),
        ("a\r\nb\r\nc\n", "\r\n"),
        ("a\rb", "\r"),
        ("a\r\nb\n", "\n"),
    ],
)
def test_line_ending_is_the_commonest(text: str, ending: str) -> None:
    assert Skill(text).line_ending == ending


def test_scrub_removes_markers_that_appear_when_others_go() -> None:
    assert scrub(f"a{GS[:9]}{AE}{GS[9:]}b") == "ab"
    assert scrub("a\ud800b") == "a\ufffdb"


# --- guidance ---------------------------------------------------------------------------------------------------------


def test_empty_guidance_goes_to_the_end_once() -> None:
    skill = Skill("# Rules\n\n\n\n- a\n").with_empty_guidance()
    assert skill.text == f"# Rules\n\n\n\n- a\n\n{GS}\n{GE}\n"
    assert skill.guidance == ""
    assert skill.with_empty_guidance() == skill
    assert Skill("").with_empty_guidance().text == f"{GS}\n{GE}\n"
    assert Skill("a").with_empty_guidance().text == f"a\n\n{GS}\n{GE}\n"


def test_guidance_is_replaced_where_it_stands() -> None:
    skill = Skill(f"# A\n\n\n\nx\n\n{GUIDANCE}\n\n{APPENDIX}\ntail\n").with_guidance("New.\nTwo.\n")
    assert skill.text == f"# A\n\n\n\nx\n\n{GS}\nNew.\nTwo.\n{GE}\n\n{APPENDIX}\ntail\n"


def test_guidance_takes_the_line_ends_of_the_skill() -> None:
    skill = Skill("a\r\nb\r\n").with_guidance("one\ntwo")
    assert skill.text == f"a\r\nb\r\n\r\n{GS}\r\none\r\ntwo\r\n{GE}\r\n"


def test_guidance_cannot_leak_out_of_its_block() -> None:
    skill = Skill("a\n").with_guidance(f"x {GE} y {GE[:7]}{AS}{GE[7:]} z {AE}")
    assert skill.guidance == "x  y  z"
    assert skill.with_guidance("n").text == f"a\n\n{GS}\nn\n{GE}\n"


def test_further_guidance_blocks_go() -> None:
    skill = Skill(f"a\n\n{GUIDANCE}\n\nb{GUIDANCE}c\n")
    assert skill.guidance == "Check units.\n\nCheck units."
    assert skill.with_guidance("n").text == f"a\n\n{GS}\nn\n{GE}\n\nb\nc\n"


@given(TEXTS, TEXTS)
def test_guidance_changes_nothing_else(text: str, guidance: str) -> None:
    skill = Skill(text)
    new = skill.with_guidance(guidance)
    assert new.guidance is not None
    assert re.split(r"\r\n|\r|\n", new.guidance) == re.split(r"\r\n|\r|\n", scrub(guidance).strip())
    assert new.frontmatter.startswith(skill.frontmatter)
    assert new.appendix == skill.appendix
    assert new.same_body(skill) or skill.text.count(GS) > 1
    assert new.with_guidance(guidance) == new
    assert skill.with_guidance("other").with_guidance(guidance).guidance == new.guidance
    empty = skill.with_empty_guidance()
    assert empty.with_empty_guidance() == empty
    assert empty.text.startswith(skill.text)


# --- body -------------------------------------------------------------------------------------------------------------


def test_body_is_replaced_between_the_other_parts() -> None:
    skill = Skill(f"{FRONT}\n# Old\n\n{GUIDANCE}\n\n{APPENDIX}\n")
    assert skill.with_body("\n# New\n\n- b\n\n").text == f"{FRONT}\n# New\n\n- b\n\n{GUIDANCE}\n\n{APPENDIX}\n"


@pytest.mark.parametrize(
    ("text", "body", "expected"),
    [
        ("", "x", "x\n"),
        ("", "", ""),
        ("old", "x\n\n", "x\n"),
        ("old\r\nline\r\n", "x\ny", "x\r\ny\r\n"),
        (FRONT, "x", FRONT + "x\n"),
        (FRONT.rstrip(), "x", FRONT + "\nx\n"),
        (GUIDANCE, "x", f"x\n\n{GUIDANCE}"),
        (f"{GUIDANCE}\n", "x", f"x\n\n{GUIDANCE}\n"),
        (f"{GUIDANCE}\n\nold\n", "x", f"{GUIDANCE}\n\nx\n"),
        (f"a {GUIDANCE} b {APPENDIX} c", "x", f"x\n\n{GUIDANCE}\n\n{APPENDIX}\n"),
        (f"a\n{GE}\nb\n", "x", "x\n"),
        (f"a\n\n{GUIDANCE}\n", "", f"{GUIDANCE}\n"),
        ("old\n", FRONT + "x", "x\n"),
        ("old\n", f"\n\n{FRONT}{FRONT}{GS}x{GE}", "x\n"),
        (FRONT + "old\n", "---\nname: evil\n---\n    code", FRONT + "    code\n"),
    ],
)
def test_body_placement(text: str, body: str, expected: str) -> None:
    assert Skill(text).with_body(body).text == expected


@given(TEXTS, TEXTS)
def test_a_new_body_leaves_the_other_parts_alone(text: str, body: str) -> None:
    skill = Skill(text)
    new = skill.with_body(body)
    assert new.frontmatter.startswith(skill.frontmatter)
    regions = [segment.text for segment in skill.segments if segment.kind in ("guidance", "appendix")]
    assert [part for kind, part in new.protected if kind != "frontmatter"] == regions
    assert new.with_body(body).same_body(new)
    assert new.to_bytes().decode() == new.text


@given(TEXTS)
def test_a_skill_has_the_body_of_itself(text: str) -> None:
    skill = Skill(text)
    assert skill.same_body(skill)
    assert skill.same_body(Skill(text + "\n")) or not text.strip()
    assert skill.with_empty_guidance().same_body(skill)


def test_same_body_sees_words_not_blanks() -> None:
    assert Skill("# A\n\nx\n").same_body(Skill("# A  \r\n\r\n\r\n\r\nx"))
    assert Skill(FRONT + "x\n").same_body(Skill(f"x\n\n{GUIDANCE}\n"))
    assert not Skill("# A\n\nx\n").same_body(Skill("# A\n\nX\n"))
    assert not Skill("  x\n").same_body(Skill("x\n"))
    assert not Skill("a b\n").same_body(Skill("a\nb\n"))


def test_same_content_takes_an_empty_region_for_none() -> None:
    skill = Skill(FRONT + "# A\n")
    assert skill.same_content(skill.with_empty_guidance())
    assert not skill.same_content(skill.with_guidance("x"))
    assert not skill.same_content(Skill("# A\n"))
    assert not skill.same_content(Skill(f"{FRONT}# A\n\n{APPENDIX}\n"))
    assert not skill.same_content(Skill(FRONT + "# B\n"))


def test_constants_are_the_published_ones() -> None:
    assert (GUIDANCE_START, GUIDANCE_END) == ("<!-- SLOW_UPDATE_START -->", "<!-- SLOW_UPDATE_END -->")
    assert (APPENDIX_START, APPENDIX_END) == ("<!-- APPENDIX_START -->", "<!-- APPENDIX_END -->")
    assert APPENDIX_HEADING == "## Execution Notes Appendix"


def test_blank_lines_do_not_slow_the_parser_down() -> None:
    assert frontmatter_length("---\r\nname: x\r\n" + "\r\n" * 5000 + "prose\r\n---\r\n") == 0
