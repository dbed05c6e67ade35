"""The agent target: a fresh workspace an item, the skill in a SKILL.md, the task in a file of its own."""

from __future__ import annotations

import re
from pathlib import PurePosixPath

from skillopt.harness.base import Asked, Event, Harness
from skillopt.models.types import File, Message, Reply, Request
from skillopt.skill import Skill
from skillopt.types import Attachment, Task

SKILL_FILE = ".agents/skills/skillopt-target/SKILL.md"
TASK_FILE = "task.md"
LIST_FILE = "ATTACHMENTS.md"

_SKILL_HEAD = """---
name: skillopt-target
description: How the task in this folder is to be worked on and answered. Read it before you begin.
---

# How to work on this task

"""


def skill_file(task: Task, skill_text: str) -> str:
    """SKILL.md: what the environment says about its tasks, then the skill; a blank skill leaves no trace."""
    guidance = f"\n\n## Dynamic Guidance\n{skill_text.strip()}\n" if skill_text.strip() else "\n"
    return f"{_SKILL_HEAD}{task.system.strip()}{guidance}"


def attachment_files(attachments: tuple[Attachment, ...]) -> tuple[File, ...]:
    """``attachments/NN_name`` for each, and the list of them."""
    if not attachments:
        return ()
    names = [f"attachments/{i:02d}_{_file_name(each.name)}" for i, each in enumerate(attachments, start=1)]
    lines = [f"- `{name}` ({each.media_type})" for name, each in zip(names, attachments, strict=True)]
    listed = "# Attachments\n\nThe files that belong to the task:\n\n" + "\n".join(lines) + "\n"
    files = [File(name, each.data) for name, each in zip(names, attachments, strict=True)]
    return (File(LIST_FILE, listed.encode()), *files)


def _file_name(name: str) -> str:
    """The last part of a name, with nothing in it that a path or a shell takes for its own."""
    return re.sub(r"[^\w.-]+", "_", PurePosixPath(name.replace("\\", "/")).name).lstrip(".")[-80:] or "file"


def prompt(task: Task) -> str:
    """What the agent is told: what to read, and how to answer."""
    tag = task.answer_tag
    end = (
        f"End with the final answer, and nothing but the answer, between <{tag}> and </{tag}>."
        if tag
        else "End with the final answer as your last message, and nothing else in it."
    )
    more = f" `{LIST_FILE}` lists the files that belong to it." if task.attachments else ""
    return (
        f"Read `{SKILL_FILE}` and `{TASK_FILE}` in this folder first.{more} Work on the task in `{TASK_FILE}` as the "
        f"skill says. Everything you need is in this folder. {end}"
    )


class AgentHarness(Harness):
    """Has an agent work on an item in a workspace of its own. ``timeout`` bounds one run (seconds)."""

    def ask(self, task: Task, skill: Skill) -> Asked:
        system, user = skill_file(task, skill.text), task.user
        files = (
            File(SKILL_FILE, _utf8(system)),
            File(TASK_FILE, _utf8(user)),
            *attachment_files(task.attachments),
        )
        request = Request((Message("user", prompt(task)),), files=files, timeout=self._timeout)
        return Asked(request, system, user)

    def events(self, reply: Reply) -> tuple[Event, ...]:
        """The trajectory of the run, with the answer at its end."""
        last = reply.events[-1] if reply.events else {}
        if last.get("role") == "assistant" and last.get("content") == reply.text:
            return reply.events
        return (*reply.events, {"role": "assistant", "content": reply.text})


def _utf8(text: str) -> bytes:
    return text.encode("utf-8", "replace")
