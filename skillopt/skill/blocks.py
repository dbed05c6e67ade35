"""Markdown blocks: where new text can go, and what goes with a deletion, without breaking the blocks around it."""

from __future__ import annotations

import re
from dataclasses import dataclass

from skillopt.skill.anchors import Span

_BREAK = re.compile(r"\r\n|\r|\n")
_LINE = re.compile(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+")
_FENCE = re.compile(r"\s*(?:(?:[-*+]|\d{1,9}[.)])\s+)?(?P<fence>`{3,}(?=[^`]*$)|~{3,})")
_ITEM = re.compile(r"(?P<indent>[ \t]*)(?:[-*+]|\d{1,9}[.)])(?:[ \t]|$)")
_RULE = re.compile(r"[ \t]*(?:(?:-[ \t]*){3,}|(?:\*[ \t]*){3,}|(?:_[ \t]*){3,})$")
_UNDERLINE = re.compile(r" {0,3}(?:=+|-+)[ \t]*$")
_TABLE_DELIMITER = re.compile(r"[ \t]*\|?[ \t]*:?-+:?[ \t]*(?:\|[ \t]*:?-+:?[ \t]*)*\|?[ \t]*$")
# What ends a paragraph even without a blank line before it (list items, rules and fences are asked for separately).
_BLOCK_START = re.compile(r"[ \t]*(?:#{1,6}(?:[ \t]|$)|>|\|)")
_BARE_MARKER = re.compile(r"[ \t]*(?:(?:[-*+]|\d{1,9}[.)]|#{1,6}|>)[ \t]+)?")


@dataclass(frozen=True, slots=True)
class Insertion:
    """``text`` goes at ``offset``."""

    offset: int
    text: str


@dataclass(frozen=True, slots=True)
class _Item:
    """A list item from its marker line to the last line that belongs to it."""

    first: int
    last: int
    indent: str


def insertion_after(text: str, end: int, content: str, ending: str, *, followed: bool) -> Insertion:
    """Where in ``text`` the block ``content`` goes to follow the line that holds the character before ``end``.

    The block goes after that line, or after the code block, table, heading underline or list item that the line is
    part of, and is set off by blank lines. ``content`` is not blank. Two exceptions: a list item after a list item
    joins the list, at the same indentation, and table rows after a line of a table join the table. ``followed`` says
    that ``text`` is followed by something from which the block is to be set off too.
    """
    lines = _LINE.findall(text)
    plain = [line.rstrip("\r\n") for line in lines]
    block = _dedent(content)
    is_item, is_row = _is_item(block[0]), block[0].startswith("|")
    line, item, in_table = _last_line(plain, _line_of(lines, end - 1), is_item=is_item, is_row=is_row)
    joins_list = is_item and item is not None
    if joins_list and item is not None:
        block = [item.indent + row if row else row for row in block]
    before = "" if lines[line].endswith(("\r", "\n")) else ending
    before += "" if joins_list or in_table else ending
    if line + 1 == len(lines):
        close = not followed
    else:
        # What comes next is blank, or belongs to the list or table that the block has joined.
        following = plain[line + 1]
        close = not following.strip() and following != lines[line + 1]
        close = close or (is_item and _is_item(following)) or (in_table and "|" in following)
    after = ending if close else ending * 2
    return Insertion(sum(map(len, lines[: line + 1])), before + ending.join(block) + after)


def removal(text: str, span: Span, *, followed: bool) -> Span:
    """What to cut from ``text`` to delete ``span``.

    That is the whole lines, when nothing else but a list or heading marker is on them, and then one of the blank lines
    that would come together. ``followed`` says that ``text`` is followed by something to be set off from.
    """
    lines = _LINE.findall(text)
    first, last = _line_of(lines, span.start), _line_of(lines, span.end - 1)
    start, end = sum(map(len, lines[:first])), sum(map(len, lines[: last + 1]))
    if not _BARE_MARKER.fullmatch(text[start : span.start]) or text[span.end : end].strip():
        return span
    blank_before = first == 0 or not lines[first - 1].strip()
    if last + 1 < len(lines):
        if blank_before and not lines[last + 1].strip():
            end += len(lines[last + 1])
        return Span(start, end)
    # At the end of the text; its first line may be the rest of a region's last line and stays.
    while not followed and first > 1 and not lines[first - 1].strip():
        first -= 1
        start -= len(lines[first])
    return Span(start, end)


def reindented(text: str, start: int, content: str) -> str:
    """``content`` for a place that begins at ``start``, after the indentation of its line: its later lines get that
    indentation, unless they all have it already."""
    indent = re.search(r"(?:\A|[\r\n])([ \t]*)\Z", text[:start])
    lines: list[str] = _LINE.findall(content)
    first, rest = lines[0], lines[1:]
    if not indent or not indent[1] or all(line.startswith(indent[1]) for line in rest if line.strip()):
        return content
    return first + "".join(indent[1] + line if line.strip() else line for line in rest)


def _last_line(lines: list[str], line: int, *, is_item: bool, is_row: bool) -> tuple[int, _Item | None, bool]:
    """The last line of the block around ``line``, the list item it ends (if any), and whether to join a table."""
    line = _fence_end(lines, line)
    table = _table_around(lines, line)
    if table and is_row:
        return max(line, table.start + 1), None, True
    if table:
        line = table.end - 1
    elif line + 1 < len(lines) and _is_text(lines[line]) and _UNDERLINE.match(lines[line + 1]):
        line += 1
    item = _item_around(lines, line)
    # What is no list item itself would cut the outermost item in two, a list item only joins the innermost.
    while item and not is_item:
        outer = _item_around(lines, item.first - 1, len(item.indent)) if item.first else None
        if not outer or outer.last < item.first:
            break
        item = outer
    return _fence_end(lines, item.last if item else line), item, False


def _line_of(lines: list[str], offset: int) -> int:
    for index, line in enumerate(lines):
        offset -= len(line)
        if offset < 0:
            return index
    return len(lines) - 1


def _dedent(content: str) -> list[str]:
    """The lines of ``content``, moved left by the indentation of its first line with words, without outer blanks."""
    lines = _BREAK.split(content.rstrip())
    while not lines[0].strip():
        del lines[0]
    width = _indent(lines[0])
    return [line[min(width, _indent(line)) :] for line in lines]


def _is_item(line: str) -> bool:
    return bool(_ITEM.match(line)) and not _RULE.match(line)


def _is_text(line: str) -> bool:
    """Whether a line can be the text of a paragraph, and so go on with the paragraph of the line before it."""
    return bool(line.strip()) and not (
        _is_item(line) or _RULE.match(line) or _FENCE.match(line) or _BLOCK_START.match(line)
    )


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _fence_end(lines: list[str], line: int) -> int:
    """The closing line of the fenced code block that ``line`` is part of, or ``line``."""
    index = 0
    while index <= line:
        opening = _FENCE.match(lines[index])
        if opening:
            fence = opening["fence"]
            closing = re.compile(rf"\s*{re.escape(fence[0])}{{{len(fence)},}}\s*$")
            close = next((at for at in range(index + 1, len(lines)) if closing.match(lines[at])), None)
            if close is not None:
                if close >= line:
                    return close
                index = close
        index += 1
    return line


def _table_around(lines: list[str], line: int) -> Span | None:
    """The lines of the table that ``line`` is part of: its header, a delimiter row, and rows."""
    first = line
    while first > 0 and "|" in lines[first - 1]:
        first -= 1
    end = line + 1
    while end < len(lines) and "|" in lines[end]:
        end += 1
    delimited = first + 1 < end and "|" in lines[first] and _TABLE_DELIMITER.match(lines[first + 1])
    return Span(first, end) if delimited else None


def _item_around(lines: list[str], line: int, indent: int | None = None) -> _Item | None:
    """The innermost list item that ``line`` is part of; with ``indent``, the innermost one less indented than that."""
    first = _item_start(lines, line, indent)
    if first is None:
        return None
    marker = _ITEM.match(lines[first])
    own = marker["indent"] if marker else ""
    last, lazy = first, True
    for index in range(first + 1, len(lines)):
        if not lines[index].strip():
            lazy = False
        elif _indent(lines[index]) > len(own) or (lazy and _is_text(lines[index])):
            last, lazy = index, True
        else:
            break
    return _Item(first, last, own)


def _item_start(lines: list[str], line: int, indent: int | None) -> int | None:
    if indent is None and _is_item(lines[line]):
        return line
    lazy = indent is None and _is_text(lines[line])
    limit = _indent(lines[line]) if indent is None else indent
    for index in range(line if indent is not None else line - 1, -1, -1):
        current = lines[index]
        if not current.strip():
            lazy = False
        elif _is_item(current):
            if _indent(current) < limit or lazy:
                return index
            lazy = False
        else:
            lazy = lazy and _is_text(current)
            limit = min(limit, _indent(current))
        if limit == 0 and not lazy:
            return None
    return None
