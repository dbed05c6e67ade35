"""Trajectories as text: what is shown, what is cut, and that it is never cut in silence."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from fakes.scripted import rollout
from hypothesis import given
from hypothesis import strategies as st

from skillopt.optimizer.prompting import estimate_tokens
from skillopt.optimizer.trajectory import (
    SKILL_MARK,
    conversation,
    fair_shares,
    fit_blocks,
    shared_system_prompt,
    trajectory_block,
    trim_middle,
    without_skill,
)
from skillopt.skill import Skill

LEFT_OUT = re.compile(r"\[… (\d+) tokens left out …\]")


@given(st.text(alphabet="ab \n", max_size=4000), st.integers(0, 600))
def test_trim_keeps_head_and_tail_and_says_what_is_missing(text: str, room: int) -> None:
    trimmed, left_out = trim_middle(text, room)
    if estimate_tokens(text) <= room:
        assert (trimmed, left_out) == (text, 0)
        return
    assert left_out > 0
    found = LEFT_OUT.findall(trimmed)
    assert found == [str(left_out)]
    assert estimate_tokens(trimmed) <= max(room, 11)
    head, tail = LEFT_OUT.split(trimmed)[0].strip(), LEFT_OUT.split(trimmed)[2].strip()
    assert text.startswith(head) or text.strip().startswith(head)
    assert text.rstrip().endswith(tail.rstrip())


@given(st.lists(st.integers(0, 500), max_size=8), st.integers(1, 300), st.integers(0, 1500))
def test_fair_shares(sizes: list[int], cap: int, total: int) -> None:
    shares = fair_shares(sizes, cap, total)
    assert all(share <= min(size, cap) for share, size in zip(shares, sizes, strict=True))
    assert sum(shares) <= total
    if sum(min(size, cap) for size in sizes) <= total:
        assert shares == [min(size, cap) for size in sizes]


def test_a_block_says_all_that_matters() -> None:
    shown = rollout(
        7, 0.0, question="Who?", answer="Kim", feedback="expected: Lee", task_type="qa", reply="It was Kim."
    )
    text = fit_blocks([trajectory_block(shown, 1)], each=0, total=0).text
    for part in ("Trajectory 1 (id: item-7)", "task type: qa", "question: Who?", "answer: Kim", "reason: wrong answer"):
        assert part in text
    assert "verifier feedback: expected: Lee" in text
    assert "[assistant] It was Kim." in text
    assert text.count("## Question") == 1, "the user prompt is shown once, not as an event again"
    assert not re.search(r"(?m)^#{1,2} ", text), "no heading of a trajectory opens a section of the prompt"


def test_question_answer_and_feedback_survive_any_cut() -> None:
    shown = [
        rollout(n, question=f"what is {n}?", answer=f"answer {n}", feedback=f"gold {n}", user_prompt="word " * 5000)
        for n in range(5)
    ]
    fitted = fit_blocks([trajectory_block(each, 1) for each in shown], each=150, total=400)
    for n in range(5):
        for part in (f"what is {n}?", f"answer {n}", f"gold {n}"):
            assert part in fitted.text
    assert fitted.trimmed == 5
    assert fitted.tokens_left_out == sum(map(int, LEFT_OUT.findall(fitted.text)))
    assert estimate_tokens(fitted.text) < 5 * 150


def test_small_trajectories_leave_their_room_to_large_ones() -> None:
    blocks = [trajectory_block(rollout(1), 1), trajectory_block(rollout(2, user_prompt="word " * 400), 2)]
    assert fit_blocks(blocks, each=0, total=700).trimmed == 0
    assert fit_blocks(blocks, each=400, total=700).trimmed == 1


def test_an_oversized_answer_is_cut_but_not_lost() -> None:
    shown = rollout(1, answer="start " + "x" * 40_000 + " end", feedback="gold here")
    text = fit_blocks([trajectory_block(shown, 1)], each=400, total=0).text
    for part in ("start", "end", "gold here", "question 1?"):
        assert part in text
    assert estimate_tokens(text) < 800


@pytest.mark.parametrize(
    ("event", "line"),
    [
        ({"type": "tool_call", "cmd": "ls", "obs": "a b"}, "[action] ls\n[observation] a b"),
        (
            {"step": 2, "action": "go", "reasoning": "hm", "env_feedback": "done"},
            "[step 2 think] hm\n[step 2 action] go\n[step 2 observation] done",
        ),
        ({"role": "system", "content": "checked"}, "[verification] checked"),
        ({"role": "assistant", "content": "hi"}, "[assistant] hi"),
        ({"content": {"a": 1}}, '[event] {"a": 1}'),
        ({"role": "assistant", "content": None}, ""),
        ({}, ""),
    ],
)
def test_events(event: dict[str, object], line: str) -> None:
    assert conversation(replace(rollout(1), trajectory=[event])) == line


def test_the_skill_is_not_repeated_in_the_target_s_prompt() -> None:
    skill = Skill("# My skill\n\n- be brief\n")
    prompt = f"You answer.\n\n## Skill\n{skill.text}"
    assert without_skill(prompt, skill) == f"You answer.\n\n## Skill\n{SKILL_MARK}\n"
    same = [rollout(n, system_prompt=prompt) for n in range(3)]
    assert shared_system_prompt(same, skill) == without_skill(prompt, skill)
    assert shared_system_prompt([*same, rollout(9, system_prompt="Other.")], skill) is None
