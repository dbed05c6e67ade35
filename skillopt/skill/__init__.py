"""The trainable state: a skill document, and the edits that may be made to it. Pure; no I/O."""

from __future__ import annotations

from skillopt.skill.document import (
    APPENDIX_END,
    APPENDIX_HEADING,
    APPENDIX_START,
    GUIDANCE_END,
    GUIDANCE_START,
    Skill,
)
from skillopt.skill.edits import OPS, AppliedEdits, Edit, EditReport, apply_edits, apply_rewrite

__all__ = [
    "APPENDIX_END",
    "APPENDIX_HEADING",
    "APPENDIX_START",
    "GUIDANCE_END",
    "GUIDANCE_START",
    "OPS",
    "AppliedEdits",
    "Edit",
    "EditReport",
    "Skill",
    "apply_edits",
    "apply_rewrite",
]
