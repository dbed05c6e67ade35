"""The one answer extractor. Pure."""

from __future__ import annotations

import re

from skillopt.types import Answer


def extract(reply: str, tag: str | None = "answer") -> Answer:
    """The answer in a target's ``reply``, and the rule that found it.

    ``tag``: the text of the last complete tag, of any case, over any number of lines. ``open_tag``: without one, all
    that follows the last opening tag. ``last_line``: without that, the last line that is not blank. ``whole``: the
    stripped reply, which is also the rule when the whole reply is the answer (``tag`` None).
    """
    if tag is None:
        return Answer(reply.strip(), reply, "whole")
    name = re.escape(tag)
    marks = list(re.finditer(rf"<(/?){name}\s*>", reply, re.IGNORECASE))
    # A complete tag is an opening mark with the closing one right after it: a tag that is only spoken of, earlier in
    # the reasoning, swallows nothing.
    for opening, closing in zip(reversed(marks[:-1]), reversed(marks[1:]), strict=True):
        if not opening[1] and closing[1]:
            return Answer(reply[opening.end() : closing.start()].strip(), reply, "tag")
    last_opening = next((mark for mark in reversed(marks) if not mark[1]), None)
    if last_opening is not None:
        return Answer(reply[last_opening.end() :].strip(), reply, "open_tag")
    # What is left can only be a closing tag without its opening one, which is no part of an answer.
    text = re.sub(rf"</{name}\s*>", "", reply, flags=re.IGNORECASE).strip()
    if not text:
        return Answer(text, reply, "whole")
    return Answer(text.splitlines()[-1].strip(), reply, "last_line")
