"""The last lines of a training: what to type next, and what its result does not show."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import pytest

from skillopt.cli.endings import command, next_steps

UP = {"before_mean": 0.4, "after_mean": 0.65, "lift": 0.25, "low": 0.1, "high": 0.4, "p_value": 0.012}
UP |= {"n": 40, "wins": 12, "losses": 2}


def lines(root: str = "/runs/x", **summary: Any) -> list[str]:
    return next_steps({"no_improvement_reason": None, "test_lift": UP, **summary}, root)


@pytest.mark.parametrize(
    ("summary", "said"),
    [
        ({}, None),
        ({"test_lift": {**UP, "low": -0.1}}, "no lift is shown: on the test items the difference may be chance"),
        ({"test_lift": {**UP, "low": -0.4, "high": -0.1}}, "on the test items the best skill is worse"),
        ({"test_lift": None}, "no lift is shown: the best skill was not compared"),
        ({"no_improvement_reason": "all_rejected"}, "the best skill is the first one, unchanged: no candidate passed"),
        ({"no_improvement_reason": "no_edits_proposed"}, "unchanged: the optimizer proposed no edit"),
        ({"no_improvement_reason": "no_edit_applied"}, "unchanged: none of the proposed edits could be applied"),
        ({"no_improvement_reason": "something new"}, "unchanged: something new"),
    ],
)
def test_what_is_not_shown_is_said_plainly(summary: dict[str, Any], said: str | None) -> None:
    found = lines(**summary)
    assert len(found) <= 3
    if said is None:
        assert found[0].startswith("look at it")
    else:
        assert said in found[0]
    assert any("export" in line for line in found) is not bool(summary.get("no_improvement_reason"))


def test_the_commands_can_be_typed_as_they_stand(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    look, use = lines(str(tmp_path / "my runs" / "x"))
    assert command("report", str(tmp_path / "my runs" / "x")) in look
    assert shlex.split(look)[-2:] == ["--root", str(tmp_path / "my runs")]
    assert shlex.split(use)[-2:] == ["--to", "claude"]
    assert lines(str(tmp_path / "outputs" / "x"))[0].endswith(command("ui")), "where it looks by itself"
