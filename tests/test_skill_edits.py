from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skillopt.skill import Edit, Skill, apply_edits, apply_rewrite
from skillopt.skill.document import APPENDIX_HEADING, MARKERS

GS, GE, AS, AE = MARKERS
FRONT = "---\nname: search\ndescription: how to search\n---\n"
GUIDANCE = f"{GS}\nCheck units.\n{GE}"
APPENDIX = f"{AS}\n{APPENDIX_HEADING}\n- note one\n{AE}"
DOC = f"{FRONT}# Rules\n\n- Read it all.\n- Answer in one word.\n\nWork hard.\n\n{GUIDANCE}\n"


def edit(text: str, op: str, target: str | None = None, content: str | None = None) -> tuple[str, str]:
    """The text after one edit, and its status."""
    done = apply_edits(Skill(text), [Edit(op, target, content)])
    (report,) = done.reports
    assert report.applied == (done.skill.text != text)
    return done.skill.text, report.status


def statuses(text: str, *edits: Edit) -> list[str]:
    return [report.status for report in apply_edits(Skill(text), edits).reports]


# --- the table of statuses --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "op", "target", "content", "status"),
    [
        ("a\n", "append", None, "b", "applied_append"),
        ("a\n", "APPEND", None, "b", "applied_append"),
        (DOC, "append", None, "b", "applied_append_before_protected_region"),
        (DOC, "append", "Check units.", "b", "applied_append_before_protected_region"),
        (DOC, "append", None, "", "skipped_append_no_change"),
        (DOC, "append", None, None, "skipped_append_no_change"),
        (DOC, "append", None, f" {GS}\n{AE} ", "skipped_append_no_change"),
        (DOC, "insert_after", "Read it all.", "- b", "applied_insert_after"),
        (DOC, "Insert_After", "Read  it\nall.", "- b", "applied_insert_after"),
        (DOC, "insert_after", "", "- b", "skipped_insert_after_missing_target"),
        (DOC, "insert_after", None, "- b", "skipped_insert_after_missing_target"),
        (DOC, "insert_after", "absent", "- b", "skipped_insert_after_unmatched"),
        (DOC, "insert_after", "r", "- b", "skipped_insert_after_ambiguous"),
        (DOC, "insert_after", "Read it all.", "", "skipped_insert_after_no_change"),
        (DOC, "insert_after", "Check units.", "- b", "skipped_protected_region"),
        (DOC, "insert_after", "name: search", "- b", "skipped_protected_region"),
        (DOC, "replace", "Read it all.", "Read.", "applied_replace"),
        (DOC, "REPLACE", "Read it all.", "Read.", "applied_replace"),
        (DOC, "replace", "Read it all.", "", "applied_replace"),
        (DOC, "replace", "Read it all.", None, "error"),
        (DOC, "replace", "Read it all.", " Read it all. ", "skipped_replace_no_change"),
        (DOC, "replace", "", "x", "skipped_replace_missing_target"),
        (DOC, "replace", None, "x", "skipped_replace_missing_target"),
        (DOC, "replace", " \n", "x", "skipped_replace_missing_target"),
        (DOC, "replace", "absent", "x", "skipped_replace_unmatched"),
        (DOC, "replace", "read it all.", "x", "skipped_replace_unmatched"),
        (DOC, "replace", "r", "x", "skipped_replace_ambiguous"),
        (DOC, "replace", GS, "x", "skipped_protected_region"),
        (DOC, "replace", f"Work hard.\n\n{GS}", "x", "skipped_replace_protected"),
        (DOC, "replace", "---\n# Rules", "x", "skipped_replace_protected"),
        (DOC, "delete", "Read it all.", None, "applied_delete"),
        (DOC, "delete", "Read it all.", "ignored", "applied_delete"),
        (DOC, "delete", "", None, "skipped_delete_missing_target"),
        (DOC, "delete", "absent", "", "skipped_delete_unmatched"),
        (DOC, "delete", "r", None, "skipped_delete_ambiguous"),
        (DOC, "delete", "units.", None, "skipped_protected_region"),
        (DOC, "delete", f"units.\n{GE}\n", None, "skipped_protected_region"),
        (f"a\n{GE}\nb\n", "delete", GE, None, "skipped_protected_region"),
        (f"a\n{GE}\nb\n", "delete", f"a\n{GE}", None, "skipped_delete_protected"),
        (DOC, "move", "a", "b", "skipped_unknown_op"),
        (DOC, "", "a", "b", "skipped_unknown_op"),
    ],
)
def test_statuses(text: str, op: str, target: str | None, content: str | None, status: str) -> None:
    assert edit(text, op, target, content)[1] == status


def test_report_rows_have_the_published_keys() -> None:
    edits = [Edit("Delete", "t" * 300, None), Edit("append", None, f" {GS}{'c' * 300}\n"), Edit("Bogus", None, "x")]
    done = apply_edits(Skill("a\n"), edits)
    assert [report.row() for report in done.reports] == [
        {
            "op": "delete",
            "target": "t" * 200,
            "content_preview": "",
            "status": "skipped_delete_unmatched",
            "index": 1,
        },
        {"op": "append", "target": "", "content_preview": "c" * 200, "status": "applied_append", "index": 2},
        {"op": "Bogus", "target": "", "content_preview": "x", "status": "skipped_unknown_op", "index": 3},
    ]
    assert done.summary() == {"total": 3, "applied": 1, "skipped": 2, "errors": 0}
    assert [bool(report.detail) for report in done.reports] == [True, False, True]
    assert apply_edits(Skill("a"), [Edit("replace", "a")]).summary()["errors"] == 1


# --- append -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "content", "expected"),
    [
        ("", "x", "x\n"),
        ("\n \n", "x", "x\n"),
        ("a", " x\n", "a\n\nx\n"),
        ("a  \n\n\n\n", "x", "a\n\nx\n"),
        ("- a\n", "- b", "- a\n\n- b\n"),
        ("a\r\nb\r\n", "x\ny\r\nz", "a\r\nb\r\n\r\nx\r\ny\r\nz\r\n"),
        (FRONT, "x", f"{FRONT}\nx\n"),
        (FRONT.rstrip(), "x", f"{FRONT}\nx\n"),
        (f"a\n{GUIDANCE}\ntail\n", "x", f"a\n\nx\n\n{GUIDANCE}\ntail\n"),
        (f"a\n\n\n{APPENDIX}\n\n{GUIDANCE}", "x", f"a\n\nx\n\n{APPENDIX}\n\n{GUIDANCE}"),
        (f"{FRONT}{GUIDANCE}", "x", f"{FRONT}\nx\n\n{GUIDANCE}"),
        (GUIDANCE, "x", f"x\n\n{GUIDANCE}"),
        (f"a {GUIDANCE}", "x", f"a\n\nx\n\n{GUIDANCE}"),
        (f"a\n{GS}\n", "x", f"a\n{GS}\n\nx\n"),
    ],
)
def test_append(text: str, content: str, expected: str) -> None:
    assert edit(text, "append", None, content)[0] == expected


def test_appending_frontmatter_to_an_empty_skill_is_refused() -> None:
    assert edit("", "append", None, FRONT + "x")[1] == "skipped_append_protected"


# --- insert_after -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "target", "content", "expected"),
    [
        ("# A\n\ntext\n", "# A", "x", "# A\n\nx\n\ntext\n"),
        ("# A\ntext\n", "# A", "x", "# A\n\nx\n\ntext\n"),
        ("one\ntwo\n", "one", "x", "one\n\nx\n\ntwo\n"),
        ("one two\n\nthree", "one", "x", "one two\n\nx\n\nthree"),
        ("a\n\nb\n", "a\n", "x", "a\n\nx\n\nb\n"),
        ("a", "a", "x", "a\n\nx\n"),
        ("a\n", "a", "x\n\ny", "a\n\nx\n\ny\n"),
        ("Title\n=====\n\ntext\n", "Title", "x", "Title\n=====\n\nx\n\ntext\n"),
        ("a\r\n\r\nb\r\n", "a", "x\ny", "a\r\n\r\nx\r\ny\r\n\r\nb\r\n"),
        (f"a\n{GUIDANCE}\n", "a", "x", f"a\n\nx\n\n{GUIDANCE}\n"),
        (f"a\n\n{GUIDANCE}\n", "a", "x", f"a\n\nx\n\n{GUIDANCE}\n"),
        (f"a {GUIDANCE}\n", "a", "x", f"a \n\nx\n\n{GUIDANCE}\n"),
        (f"{GUIDANCE} a\nb\n", "a", "x", f"{GUIDANCE} a\n\nx\n\nb\n"),
    ],
)
def test_insert_after_goes_to_the_next_line_as_a_block(text: str, target: str, content: str, expected: str) -> None:
    assert edit(text, "insert_after", target, content) == (expected, "applied_insert_after")


@pytest.mark.parametrize(
    ("text", "target", "content", "expected"),
    [
        ("- a\n- b\n", "a", "- x", "- a\n- x\n- b\n"),
        ("- a\n- b", "b", "- x", "- a\n- b\n- x\n"),
        ("1. a\n2. b\n\nend\n", "2. b", "3. x\n4. y", "1. a\n2. b\n3. x\n4. y\n\nend\n"),
        ("- a\n\n- b\n", "a", "- x", "- a\n- x\n\n- b\n"),
        ("# H\n- a\n", "# H", "- x", "# H\n\n- x\n- a\n"),
        ("para\n", "para", "- x", "para\n\n- x\n"),
        ("- a\n\npara\n", "para", "- x", "- a\n\npara\n\n- x\n"),
        # Continuation lines, lazy ones too, and nested items stay with their item.
        ("- a one\n  two\n- b\n", "one", "- x", "- a one\n  two\n- x\n- b\n"),
        ("- a one\ntwo\n- b\n", "one", "- x", "- a one\ntwo\n- x\n- b\n"),
        ("- a one\ntwo\n- b\n", "two", "- x", "- a one\ntwo\n- x\n- b\n"),
        ("- a\n\n  more\n- b\n", "- a", "- x", "- a\n\n  more\n- x\n- b\n"),
        ("- a\n\n  more\n- b\n", "more", "- x", "- a\n\n  more\n- x\n- b\n"),
        ("- a\n  - c\n- b\n", "- a", "- x", "- a\n  - c\n- x\n- b\n"),
        ("- a\n  - c\n- b\n", "- c", "- x\n  y", "- a\n  - c\n  - x\n    y\n- b\n"),
        ("- a\n  - c\n- b\n", "- c", "  - x\n  - y", "- a\n  - c\n  - x\n  - y\n- b\n"),
        ("- a\n  - c\n\n  para\n- b\n", "para", "- x", "- a\n  - c\n\n  para\n- x\n- b\n"),
        # What is no item itself goes after the whole outermost item.
        ("- a\n  - c\n  - d\n- b\n", "- c", "x", "- a\n  - c\n  - d\n\nx\n\n- b\n"),
        ("- a\n- b\n", "a", "x", "- a\n\nx\n\n- b\n"),
        ("- a\n# H\n", "a", "- x", "- a\n- x\n\n# H\n"),
        ("* * *\ntext\n", "* * *", "- x", "* * *\n\n- x\n\ntext\n"),
        ("**Bold** a\n", "a", "- x", "**Bold** a\n\n- x\n"),
    ],
)
def test_insert_after_in_lists(text: str, target: str, content: str, expected: str) -> None:
    assert edit(text, "insert_after", target, content) == (expected, "applied_insert_after")


TABLE = "| a | b |\n|---|---|\n| 1 | 2 |\n| 3 | 4 |\n"


@pytest.mark.parametrize(
    ("text", "target", "content", "expected"),
    [
        ("```py\none\ntwo\n```\nend\n", "one", "x", "```py\none\ntwo\n```\n\nx\n\nend\n"),
        ("```py\none\n```\nend\n", "```py", "x", "```py\none\n```\n\nx\n\nend\n"),
        ("~~~~\none\n~~~\n```\n~~~~\n", "one", "x", "~~~~\none\n~~~\n```\n~~~~\n\nx\n"),
        ("```\none\n", "one", "x", "```\none\n\nx\n"),
        ("```\none\n```\ntext\n```\ntwo\n```\n", "text", "x", "```\none\n```\ntext\n\nx\n\n```\ntwo\n```\n"),
        ("- a\n  ```\n  one\n  two\n  ```\n- b\n", "one", "- x", "- a\n  ```\n  one\n  two\n  ```\n- x\n- b\n"),
        ("- a\n  ```\none\ntwo\n  ```\n- b\n", "- a", "- x", "- a\n  ```\none\ntwo\n  ```\n- x\n- b\n"),
        ("use ```x``` here\nend\n", "use", "x", "use ```x``` here\n\nx\n\nend\n"),
        (TABLE + "\nend\n", "| 1", "x", TABLE + "\nx\n\nend\n"),
        (TABLE, "| a", "x", TABLE + "\nx\n"),
        (TABLE, "| 1", "| 5 | 6 |", "| a | b |\n|---|---|\n| 1 | 2 |\n| 5 | 6 |\n| 3 | 4 |\n"),
        (TABLE, "| a", "| 5 | 6 |", "| a | b |\n|---|---|\n| 5 | 6 |\n| 1 | 2 |\n| 3 | 4 |\n"),
        (TABLE + "\nend\n", "| 3", "| 5 | 6 |", TABLE + "| 5 | 6 |\n\nend\n"),
        ("a | b\nc\n", "a", "x", "a | b\n\nx\n\nc\n"),
    ],
)
def test_insert_after_leaves_code_and_tables_whole(text: str, target: str, content: str, expected: str) -> None:
    assert edit(text, "insert_after", target, content) == (expected, "applied_insert_after")


# --- replace and delete -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "target", "content", "expected"),
    [
        ("a b c\n", "b", "x", "a x c\n"),
        ("a\nb\nc\n", "b\n", "x", "a\nx\nc\n"),
        ("a\n  - b\nc\n", "  - b", "  - x", "a\n  - x\nc\n"),
        ("a\r\nb\r\nc\r\n", "a\nb", "x\ny", "x\r\ny\r\nc\r\n"),
        ("a  b\n   c\n", "a b c", "x", "x\n"),
        ("Use  tabs.\nUse tabs.\n", "Use tabs.", "x", "Use  tabs.\nx\n"),
        ("- p\n  - old\n- q\n", "- old", "- x\n- y", "- p\n  - x\n  - y\n- q\n"),
        ("- p\n  - old\n- q\n", "- old", "  - x\n  - y", "- p\n  - x\n  - y\n- q\n"),
        ("keep a drop b keep\n", "drop b", "", "keep a  keep\n"),
        ("a\n\nb\n\nc\n", "b", "", "a\n\nc\n"),
        (f"{FRONT}search\n", "search", "find", f"{FRONT}find\n"),
        (f"units\n{GUIDANCE}\n", "units", "x", f"x\n{GUIDANCE}\n"),
    ],
)
def test_replace(text: str, target: str, content: str, expected: str) -> None:
    assert edit(text, "replace", target, content) == (expected, "applied_replace")


@pytest.mark.parametrize(
    ("text", "target", "expected"),
    [
        ("- a\n- b\n- c\n", "- b", "- a\n- c\n"),
        ("- a\n- b\n- c\n", "b", "- a\n- c\n"),
        ("a\n\n## b\n\nc\n", "b", "a\n\nc\n"),
        ("a\n\nb\n\nc\n", "b\n", "a\n\nc\n"),
        ("a\n\nb\n", "b", "a\n"),
        ("a\n\nb", "b", "a\n"),
        ("a\n\nb\n\n", "a", "b\n\n"),
        ("a b c\n", "b ", "a  c\n"),
        ("a\n", "a", ""),
        (f"a\n\nb\n\n{GUIDANCE}\n", "b", f"a\n\n{GUIDANCE}\n"),
        (f"a\n\nb\n{GUIDANCE}\n", "b", f"a\n\n{GUIDANCE}\n"),
        (f"{GUIDANCE}\n\nb\n", "b", f"{GUIDANCE}\n"),
        ("a\r\n\r\nb\r\n\r\nc\r\n", "b", "a\r\n\r\nc\r\n"),
    ],
)
def test_delete_takes_emptied_lines_along(text: str, target: str, expected: str) -> None:
    assert edit(text, "delete", target) == (expected, "applied_delete")


def test_uniqueness_is_judged_in_the_body_alone() -> None:
    text = f"Check units.\n\n{GUIDANCE}\n"
    assert edit(text, "replace", "Check units.", "x") == (f"x\n\n{GUIDANCE}\n", "applied_replace")
    assert edit("aaa\n", "delete", "aa")[1] == "skipped_delete_ambiguous"


def test_an_edit_cannot_make_or_break_a_region() -> None:
    assert edit("a <!-- SLOW_X b\n", "replace", "X", "UPDATE_START -->")[1] == "skipped_replace_protected"
    assert edit(f"<!-- SLOW_XUPDATE_START -->\n{GE}\n", "delete", "X")[1] == "skipped_delete_protected"
    assert edit(f"{GS}\na\n{AS}\nb\n{GE}\n", "delete", AS)[1] == "skipped_protected_region"
    assert edit("X---\nname: x\n---\n", "delete", "X")[1] == "skipped_delete_protected"


def test_an_edit_cannot_reach_across_a_region() -> None:
    text = f"one\n\n{GUIDANCE}\n\ntwo\n"
    assert edit(text, "replace", "one\n\ntwo", "x") == (text, "skipped_replace_protected")
    assert edit(text, "delete", f"one\n\n{GUIDANCE}\n\ntwo") == (text, "skipped_delete_protected")


def test_a_reply_may_hold_what_utf8_cannot() -> None:
    done = apply_edits(Skill("a\n"), [Edit("append", None, "b\ud800"), Edit("delete", "\ud800")])
    assert done.skill.to_bytes() == "a\n\nb\ufffd\n".encode()
    assert all(str(report.row()).encode() for report in done.reports)


# --- several edits ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "edits", "expected"),
    [
        (
            "foo bar baz\n",
            [Edit("replace", "foo bar", "x"), Edit("replace", "bar baz", "y")],
            ["applied_replace", "skipped_replace_conflict"],
        ),
        (
            "a\nb\n",
            [Edit("delete", "a"), Edit("insert_after", "a", "x")],
            ["applied_delete", "skipped_insert_after_conflict"],
        ),
        (
            "Use X.\n",
            [Edit("replace", "Use X.", "Use X. Then Y."), Edit("delete", "Use X.")],
            ["applied_replace", "skipped_delete_conflict"],
        ),
        # An anchor that an earlier edit quotes still means the old place.
        (
            "Use X.\n",
            [Edit("append", None, "As said: Use X."), Edit("replace", "Use X.", "Use Z.")],
            ["applied_append", "applied_replace"],
        ),
        # New text can be edited further.
        (
            "a\n",
            [Edit("append", None, "b c"), Edit("replace", "b c", "d")],
            ["applied_append", "applied_replace"],
        ),
        (
            "a\n",
            [Edit("append", None, "b b"), Edit("replace", "b", "d")],
            ["applied_append", "skipped_replace_ambiguous"],
        ),
        (
            "a\n",
            [Edit("insert_after", "a", "x"), Edit("insert_after", "a", "y")],
            ["applied_insert_after", "applied_insert_after"],
        ),
        (
            f"b\n\n{GUIDANCE}\n",
            [Edit("delete", "b"), Edit("delete", "b"), Edit("delete", "units")],
            ["applied_delete", "skipped_delete_conflict", "skipped_protected_region"],
        ),
    ],
)
def test_edits_of_one_patch(text: str, edits: list[Edit], expected: list[str]) -> None:
    assert statuses(text, *edits) == expected


def test_the_quoted_anchor_is_left_alone() -> None:
    done = apply_edits(Skill("Use X.\n"), [Edit("append", None, "Not Use X."), Edit("replace", "Use X.", "Use Z.")])
    assert done.skill.text == "Use Z.\n\nNot Use X.\n"


# --- rewrite ----------------------------------------------------------------------------------------------------------


def test_a_rewrite_gives_its_body_only() -> None:
    skill = Skill(f"{FRONT}\n# Old\n\n{GUIDANCE}\n\n{APPENDIX}\n")
    new = f"---\nname: other\n---\n# New\n\n{GS}\nstolen\n{GE}\n\nEnd.\n"
    expected = f"{FRONT}\n# New\n\n\n\nEnd.\n\n{GUIDANCE}\n\n{APPENDIX}\n"
    assert apply_rewrite(skill, new).same_body(Skill(expected))
    assert apply_rewrite(skill, new).protected == skill.protected
    assert apply_rewrite(skill, "# New").text == f"{FRONT}\n# New\n\n{GUIDANCE}\n\n{APPENDIX}\n"


def test_a_rewrite_that_says_the_same_or_nothing_changes_nothing() -> None:
    skill = Skill(f"{FRONT}\r\n# Old\r\n\r\n{GUIDANCE}\r\n")
    assert apply_rewrite(skill, skill.text) is skill
    assert apply_rewrite(skill, "# Old") is skill
    for blank in ("", " \n", GUIDANCE, FRONT):
        assert apply_rewrite(skill, blank) is skill


# --- properties -------------------------------------------------------------------------------------------------------

WORDS = [
    "alpha",
    "beta",
    "- item",
    "  - sub",
    "# Head",
    "```",
    "| a | b |",
    "|---|---|",
    "1. one",
    "---",
    "name: x",
    "====",
]
PIECES = st.sampled_from(
    [*MARKERS, GUIDANCE, APPENDIX, FRONT, *WORDS, "\n", "\r\n", "\r", "\n\n", "<!-- SLOW_", "UPDATE_END -->"]
)
LOOSE = st.lists(st.one_of(PIECES, st.text(max_size=4)), max_size=16).map("".join)
SHAPED = st.lists(st.sampled_from([*WORDS, GUIDANCE, APPENDIX, ""]), max_size=12).map("\n".join)
TEXTS = st.one_of(LOOSE, SHAPED, SHAPED.map(lambda body: FRONT + body))
FIELDS = st.one_of(st.none(), PIECES, LOOSE, st.sampled_from(WORDS), st.just("\ud800"))


@st.composite
def skills_and_edits(draw: st.DrawFn) -> tuple[Skill, list[Edit]]:
    text = draw(TEXTS)
    cuts = st.tuples(st.integers(0, len(text)), st.integers(0, 12)).map(lambda cut: text[cut[0] : cut[0] + cut[1]])
    ops = st.sampled_from(["append", "insert_after", "replace", "delete", "Delete", "bogus"])
    edits = st.builds(Edit, ops, st.one_of(cuts, cuts, FIELDS), FIELDS)
    return Skill(text), draw(st.lists(edits, max_size=5))


@settings(max_examples=400, deadline=None)
@given(skills_and_edits())
def test_edits_never_touch_what_is_protected(case: tuple[Skill, list[Edit]]) -> None:
    skill, edits = case
    done = apply_edits(skill, edits)
    assert done.skill.frontmatter.startswith(skill.frontmatter)
    assert done.skill.protected == skill.protected
    assert (done.skill.guidance, done.skill.appendix) == (skill.guidance, skill.appendix)
    assert len(done.reports) == len(edits)
    assert done.skill.to_bytes().decode() == done.skill.text
    before = skill
    for index, _ in enumerate(edits, start=1):
        after = apply_edits(skill, edits[:index])
        assert after.reports == done.reports[:index]
        assert after.reports[-1].applied == (after.skill.text != before.text)
        before = after.skill


@settings(max_examples=150, deadline=None)
@given(TEXTS, TEXTS)
def test_rewrites_never_touch_what_is_protected(text: str, rewrite: str) -> None:
    skill = Skill(text)
    new = apply_rewrite(skill, rewrite)
    assert new.frontmatter.startswith(skill.frontmatter)
    assert (new.guidance, new.appendix) == (skill.guidance, skill.appendix)
    assert apply_rewrite(new, rewrite) == new or new is skill


@settings(max_examples=150, deadline=None)
@given(SHAPED, st.sampled_from(WORDS), st.sampled_from(["\n", "\r\n"]))
def test_inserted_text_takes_the_line_ends_of_the_skill(body: str, content: str, ending: str) -> None:
    text = f"anchor\n\n{body}\n".replace("\n", ending)
    edits = [
        Edit("insert_after", "anchor", f"{content}\nz"),
        Edit("append", None, "x\ny\r\nz"),
        Edit("delete", "anchor"),
    ]
    done = apply_edits(Skill(text), edits)
    foreign = done.skill.text.replace(ending, "")
    assert "\r" not in foreign
    assert "\n" not in foreign.replace(GUIDANCE, "").replace(APPENDIX, "")


@settings(max_examples=150, deadline=None)
@given(SHAPED, st.sampled_from(WORDS))
def test_an_insertion_only_adds(body: str, content: str) -> None:
    """Every old line stays, in order, and the new text is there."""
    text = f"{body}\nanchor\n{body}\n"
    done = apply_edits(Skill(text), [Edit("insert_after", "anchor", content)])
    (report,) = done.reports
    assert report.status == "applied_insert_after"
    old = [line for line in text.split("\n") if line.strip()]
    rest = iter(done.skill.text.split("\n"))
    assert all(line in rest for line in old)
    assert sum(content.strip() in line for line in done.skill.text.split("\n")) > sum(content.strip() in x for x in old)


@settings(max_examples=100, deadline=None)
@given(TEXTS)
def test_replacing_twice_is_replacing_once(text: str) -> None:
    skill = Skill(text)
    edit = Edit("replace", "alpha", "omega")
    once = apply_edits(skill, [edit])
    again = apply_edits(once.skill, [edit])
    assert again.skill == once.skill
    both = apply_edits(skill, [edit, edit])
    assert both.skill == once.skill
