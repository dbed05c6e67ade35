"""What one version of a skill changed in another, and where its lines come from."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest
from fakes import published
from fakes.world import SEED_SKILL, World, run
from hypothesis import given, settings
from hypothesis import strategies as st

from skillopt.report.evolution import (
    BlameLine,
    Cause,
    Change,
    Diff,
    StepChange,
    blame,
    blame_blocks,
    diff,
    lineage,
    unified,
)
from skillopt.report.lineage import blame_of, proposal_named, read_lineage, skill_named
from skillopt.report.run import read_run
from skillopt.report.sources import sources_of, words_of
from skillopt.report.steps import Reflection, StepEdit, step_edits
from skillopt.run.folder import FolderError

LINES = st.lists(
    st.sampled_from(["", "- a rule", "- another rule", "# Title", "text, with words", "- a  rule"]), max_size=12
)
TEXTS = LINES.map(lambda lines: "".join(f"{line}\n" for line in lines))


def edit(index: int, content: str, op: str = "append", target: str = "", *, applied: bool = True) -> StepEdit:
    status = f"applied_{op}" if applied else f"skipped_{op}_unmatched"
    return StepEdit(index, op, target, content, status, applied, 2, "failure", ("i1",), True)


def step(
    number: int, candidate: str | None, *edits: StepEdit, accepted: bool = True, after: str | None = None
) -> StepChange:
    return StepChange(number, 1, candidate, accepted, edits, False, candidate if after is None else after)


# diffs


def changes(found: Diff) -> list[tuple[str, list[tuple[str, bool]]]]:
    lines = [line for hunk in found.hunks for line in hunk.lines if line.kind != "same"]
    return [(line.kind, [(word.text, word.changed) for word in line.words]) for line in lines]


def test_the_words_that_changed_are_marked() -> None:
    found = diff("- Answer in words.\nsame\n", "- Answer in digits.\nsame\n")
    assert changes(found) == [
        ("removed", [("- Answer in ", False), ("words", True), (".", False)]),
        ("added", [("- Answer in ", False), ("digits", True), (".", False)]),
    ]
    assert (found.added, found.removed) == (1, 1)


def test_a_line_that_became_another_is_marked_whole() -> None:
    assert changes(diff("- Answer in words.\n", "# Units and prices\n")) == [
        ("removed", [("- Answer in words.", True)]),
        ("added", [("# Units and prices", True)]),
    ]


def test_changed_lines_are_paired_with_the_most_alike() -> None:
    found = diff("- give the year\n- name the town\n", "- be brief\n- name the small town\n")
    marked = {text: kind for kind, words in changes(found) for text, changed in words if changed}
    assert marked == {"- give the year": "removed", "- be brief": "added", "small ": "added"}


def test_the_unified_form() -> None:
    old, new = "a\nb\nc\nd\ne\n", "a\nb\nC\nd\ne\nf\n"
    assert unified(diff(old, new, "seed", "best", 1)) == [
        "--- seed",
        "+++ best",
        "@@ -2,4 +2,5 @@",
        " b",
        "-c",
        "+C",
        " d",
        " e",
        "+f",
    ]
    assert unified(diff("", "a\n", "x", "y"))[2:] == ["@@ -0,0 +1 @@", "+a"]
    assert unified(diff("a\n", "", "x", "y"))[2:] == ["@@ -1 +0,0 @@", "-a"]


def test_line_ends_are_no_difference() -> None:
    assert unified(diff("a\r\nb\r\n", "a\nb\n")) == []


@settings(max_examples=60, deadline=None)
@given(TEXTS, TEXTS)
def test_a_diff_holds_both_sides(old: str, new: str) -> None:
    found = diff(old, new, context=100)
    lines = [line for hunk in found.hunks for line in hunk.lines]
    if old != new:
        assert [line.text for line in lines if line.kind != "added"] == old.splitlines()
        assert [line.text for line in lines if line.kind != "removed"] == new.splitlines()
        assert [line.old for line in lines if line.old] == list(range(1, old.count("\n") + 1))
        assert [line.new for line in lines if line.new] == list(range(1, new.count("\n") + 1))
    else:
        assert lines == []


def test_a_very_long_line_does_not_take_long() -> None:
    found = diff("x" * 500_000 + "\n", "x " * 250_000 + "\n")
    assert (found.added, found.removed) == (1, 1)


# blame


def labels(changes: tuple[Change, ...]) -> dict[str, str]:
    return {line.text: line.cause.label for line in blame(changes) if line.text.strip()}


def test_each_edit_answers_for_its_lines() -> None:
    seed = "# Skill\n\n- one\n"
    first = "# Skill\n\n- one\n\n- two\n\n- three\n"
    second = "# Skill\n\n- one\n\n- two, changed\n\n- three\n"
    steps = [
        step(1, first, edit(1, "- two"), edit(2, "- three"), edit(3, "- never", applied=False)),
        step(2, "# Skill\n\n- bad\n", edit(1, "- bad", "replace", "- one"), accepted=False, after=first),
        step(3, second, edit(1, "- two, changed", "replace", "- two")),
    ]
    assert labels(lineage(seed, steps, second)) == {
        "# Skill": "seed",
        "- one": "seed",
        "- two, changed": "step 3, edit 1",
        "- three": "step 1, edit 2",
    }


def test_the_history_ends_with_the_best_skill() -> None:
    first, second = "- a\n\n- b\n", "- a\n\n- b\n\n- c\n"
    steps = [step(1, first, edit(1, "- b")), step(2, second, edit(1, "- c"))]
    assert labels(lineage("- a\n", steps, first)) == {"- a": "seed", "- b": "step 1, edit 1"}
    assert labels(lineage("- a\n", steps, "- a\n")) == {"- a": "seed"}
    assert labels(lineage("- a\n", steps, "- a\n- z\n")) == {"- a": "seed", "- z": "unknown"}


def test_what_no_edit_explains() -> None:
    seed, after = "- a\n", "- a\n\n- b\n<!-- SLOW_UPDATE_START -->\nmore\n"
    rewritten = StepChange(1, 1, "- new\n", True, (), True, "- new\n")
    assert labels(lineage(seed, [rewritten], "- new\n")) == {"- new": "rewrite of step 1"}
    slow = StepChange(1, 3, None, False, (), False, after)
    assert labels(lineage(seed, [slow], after))["more"] == "slow update of epoch 3"
    other = step(1, "- a\n- from nowhere\n")
    assert labels(lineage(seed, [other], "- a\n- from nowhere\n"))["- from nowhere"] == "step 1"


def test_edits_applied_by_other_rules_are_found_by_their_words() -> None:
    seed, theirs = "- a\n", "- a\n\n\n\n- two\n- lines\nunexplained\n"
    found = labels(lineage(seed, [step(1, theirs, edit(1, "- two\n- lines"), edit(2, "lost"))], theirs))
    assert found == {"- a": "seed", "- two": "step 1, edit 1", "- lines": "step 1, edit 1", "unexplained": "step 1"}


@settings(max_examples=60, deadline=None)
@given(st.lists(TEXTS, min_size=1, max_size=5))
def test_blame_is_of_the_last_version_and_knows_when_a_line_came(versions: list[str]) -> None:
    found = blame([Change(text, Cause("step", number)) for number, text in enumerate(versions)])
    assert [line.text for line in found] == versions[-1].splitlines()
    assert [line.number for line in found] == list(range(1, len(found) + 1))
    for line in found:
        assert line.cause.step is not None
        assert line.text in versions[line.cause.step].splitlines()


@settings(max_examples=40, deadline=None)
@given(TEXTS, TEXTS, TEXTS, st.lists(TEXTS, max_size=3))
def test_any_history_reaches_the_best_skill(seed: str, candidate: str, best: str, contents: list[str]) -> None:
    edits = [edit(number, content) for number, content in enumerate(contents, start=1)]
    changes = lineage(seed, [step(1, candidate, *edits)], best)
    assert (changes[0].text, changes[-1].text) == (seed, best)
    assert all(before.text != after.text for before, after in pairwise(changes))


# sources


@pytest.mark.parametrize(
    ("wording", "source", "expected"),
    [
        ("Use digits.", "failure", ("a", "b")),
        ("use  DIGITS", "failure", ("a", "b")),
        ("Use digits always.", "failure", ("a", "b")),
        ("Name the town.", "mixed", ("c", "d")),
        ("Quite another thing.", "failure", ("a", "b", "c")),
        ("Quite another thing.", "success", ("d",)),
        ("Quite another thing.", "", ("a", "b", "c", "d")),
        ("Name the town and use digits.", "failure", ("c",)),
    ],
)
def test_an_edit_comes_from_the_reflections_that_proposed_it(wording: str, source: str, expected: object) -> None:
    proposals = [
        ("failure", ["a", "b"], [words_of("Use digits."), words_of("Be brief.")]),
        ("failure", ["c"], [words_of("Name the town.")]),
        ("failure", ["x"], []),
        ("success", ["d"], [words_of("Name the town.")]),
    ]
    assert sources_of(words_of(wording), source, proposals) == expected


@pytest.mark.parametrize(("support", "items"), [(None, ("a",)), (1, ("a",)), (2, ("a", "b"))])
def test_support_tells_whether_others_said_it_in_other_words(support: int | None, items: tuple[str, ...]) -> None:
    said, others = words_of("Name the town."), words_of("Name the whole town.")
    proposals = [("failure", ["a"], [said]), ("failure", ["b"], [others])]
    assert sources_of(said, "failure", proposals, support) == items


READ = (("failure", ("a", "b", "c")), ("failure", ("d",)), ("success", ("e", "f")), ("failure", ()))


@pytest.mark.parametrize(
    ("item", "rollouts", "support", "items", "certain"),
    [
        ({"content": "rule 0", "support_count": 12}, 6, "at most 3 trajectories", ("a", "b", "c"), False),
        ({"content": "rule 0", "support_count": 2}, 6, "at most 2 trajectories", ("a", "b", "c"), False),
        ({"content": "rule 0", "support_count": 1}, 6, "1 trajectory", ("a", "b", "c"), False),
        ({"content": "rule 1", "support_count": 4}, 6, "1 trajectory", ("d",), True),
        (
            {"content": "new", "source_type": "failure", "support_count": 9},
            6,
            "at most 4 trajectories",
            (*"abcd",),
            False,
        ),
        ({"content": "rule 0", "support_count": 12, "source_items": ["c", "a"]}, 6, "2 trajectories", ("c", "a"), True),
        ({"content": "rule 0", "support_count": 1, "source_items": ["c", "a"]}, 6, "2 trajectories", ("c", "a"), True),
        ({"content": "rule 3", "support_count": 7}, 6, "at most 6 trajectories", (), False),
        ({"content": "rule 3", "support_count": 7}, 0, "at most 7 trajectories", (), False),
        ({"content": "rule 0"}, 6, "", ("a", "b", "c"), False),
    ],
)
def test_an_edit_rests_on_no_more_than_the_items_behind_it(
    item: dict[str, object], rollouts: int, support: str, items: tuple[str, ...], certain: bool
) -> None:
    reflections = tuple(
        Reflection(str(number), None, kind, ids, "", "", {}, "", ({"op": "append", "content": f"rule {number}"},))
        for number, (kind, ids) in enumerate(READ)
    )
    (edit,) = step_edits({"edits": [{"op": "append", **item}]}, (), reflections, rollouts)
    assert (edit.support, edit.source_items, edit.source_certain) == (support, items, certain)


# of a run


@given(st.lists(st.tuples(st.sampled_from(["", "  ", "a", "b"]), st.integers(1, 3)), max_size=12))
def test_blocks_hold_all_lines_and_no_block_is_empty_but_the_last(found: list[tuple[str, int]]) -> None:
    lines = [BlameLine(number, text, Cause("step", step)) for number, (text, step) in enumerate(found, start=1)]
    blocks = blame_blocks(lines)
    assert [line for block in blocks for line in block.lines] == lines
    assert all(line.cause == block.cause for block in blocks for line in block.lines if line.text.strip())
    assert all(any(line.text.strip() for line in block.lines) for block in blocks[:-1])
    assert all(one.cause != other.cause for one, other in pairwise(blocks))


def test_blame_of_a_run(tmp_path: Path) -> None:
    run(World(), tmp_path / "run")
    view = read_run(tmp_path / "run")
    lines = blame_of(view)
    assert "".join(f"{line.text}\n" for line in lines) == view.best
    for line in lines:
        if line.text in SEED_SKILL.splitlines():
            assert line.cause.kind == "seed" or not line.text.strip()
            continue
        assert line.cause.kind == "edit", line
        assert line.cause.edit is not None
        if line.text.strip():
            assert line.text in line.cause.edit.content
            assert line.cause.edit.source_items


def test_blame_of_a_rewriting_run(tmp_path: Path) -> None:
    run(World(), tmp_path / "run", {"optimizer.skill_update_mode": "full_rewrite_minibatch"})
    kinds = {line.cause.kind for line in blame_of(read_run(tmp_path / "run"))}
    assert "rewrite" in kinds
    assert kinds <= {"seed", "rewrite", "slow_update"}


def test_blame_of_a_published_run(tmp_path: Path) -> None:
    view = read_run(published.published_run(tmp_path / "run"))
    assert {line.text: line.cause.label for line in blame_of(view) if line.text.strip()} == {
        "# Skill": "seed",
        published.REPLACED: "step 3, edit 1",
        "- Use digits.": "step 1, edit 1",
        "- Name the unit.": "step 1, edit 1",
        published.START: "slow update of epoch 1",
        published.END: "slow update of epoch 1",
    }


def test_a_run_that_lost_its_versions_still_has_a_blame(tmp_path: Path) -> None:
    root = published.published_run(tmp_path / "run")
    for path in (root / "skills").iterdir():
        path.unlink()
    view = read_run(root)
    assert {line.cause.kind for line in blame_of(view)} == {"seed"}
    (root / "best_skill.md").unlink()
    with pytest.raises(FolderError, match="has no skill"):
        read_lineage(view)


@pytest.mark.parametrize(
    ("word", "name", "text"),
    [
        ("seed", "seed", published.SEED),
        ("BEST", "best", published.CANDIDATE_3),
        ("final", "final", published.V3),
        ("1", "version 1", published.V1),
        ("v2", "version 2", published.V1_PLACEHOLDER),
        ("skill_v0003.md", "version 3", published.V3),
        ("step_2", "candidate of step 2", published.CANDIDATE_2),
        ("step_0003", "candidate of step 3", published.CANDIDATE_3),
        ("epoch_2", "slow update of epoch 2", published.V3),
    ],
)
def test_skills_have_names(tmp_path: Path, word: str, name: str, text: str) -> None:
    found = skill_named(read_run(published.published_run(tmp_path / "run")), word)
    assert (found.name, found.text) == (name, text)


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("../best", "names no skill of a run; use seed, best"),
        ("7", "has no version 7; it has 0 to 3"),
        ("step_9", "step 9 of .* has no candidate skill"),
        ("epoch_1", r"the slow update of epoch 1 of .* has no candidate skill \(inject_placeholder\)"),
    ],
)
def test_a_name_of_nothing_is_refused(tmp_path: Path, word: str, message: str) -> None:
    with pytest.raises(FolderError, match=message):
        skill_named(read_run(published.published_run(tmp_path / "run")), word)


def test_a_proposal_comes_with_what_it_was_made_of(tmp_path: Path) -> None:
    view = read_run(published.published_run(tmp_path / "run"))
    for word, before, after in (
        ("step_3", published.V1_PLACEHOLDER, published.CANDIDATE_3),
        ("epoch_2", published.CANDIDATE_3, published.V3),
    ):
        found = proposal_named(view, word)
        assert found is not None
        assert (found[0].text, found[1].text) == (before, after)
    assert proposal_named(view, "best") is None
