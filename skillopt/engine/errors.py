"""What ends a run before its work begins."""

from __future__ import annotations

from skillopt.models.errors import ModelError
from skillopt.types import Role


class RoleError(Exception):
    """A role whose model cannot be used, before any work was sent: the role, the model, the cause."""

    def __init__(self, role: Role, error: ModelError) -> None:
        super().__init__(f"{role}: {error}")
        self.error = error
