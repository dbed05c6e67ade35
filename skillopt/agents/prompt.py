"""Messages as one text, for programs that take a prompt and not a conversation. Pure."""

from __future__ import annotations

import json
from collections.abc import Sequence

from skillopt.models.anthropic import image_block
from skillopt.models.types import Image, Message

REMINDER = (
    "Your previous run on this ended without an answer. Do it again, and end with the complete answer as your last "
    "message."
)
_CLOSING = "Reply to the last message, and follow the system message. Give the reply alone."


def system_text(messages: Sequence[Message]) -> str:
    """All system messages as one."""
    return "\n\n".join(message.content for message in messages if message.role == "system")


def flatten(messages: Sequence[Message], *, with_system: bool, reminder: bool = False) -> str:
    """The conversation as one prompt. A lone message goes as it is; of several each is labelled with its role.

    ``with_system`` is False when the system text goes another way. ``reminder`` puts before it that the last run gave
    no answer.
    """
    shown = [message for message in messages if with_system or message.role != "system"]
    if len(shown) == 1 and shown[0].role == "user":
        body = shown[0].content
    else:
        blocks = [f'<message role="{message.role}">\n{message.content}\n</message>' for message in shown]
        body = "\n\n".join([*blocks, _CLOSING])
    return f"{REMINDER}\n\n{body}" if reminder else body


def all_images(messages: Sequence[Message]) -> tuple[Image, ...]:
    """The pictures of a conversation, in order."""
    return tuple(image for message in messages for image in message.images)


def message_line(prompt: str, images: Sequence[Image]) -> str:
    """A user's message with pictures before the text, as one line of streamed JSON (Anthropic's content blocks)."""
    content = [*map(image_block, images), {"type": "text", "text": prompt}]
    return json.dumps({"type": "user", "message": {"role": "user", "content": content}}) + "\n"
