"""What a run works with, passed to every stage; nothing here is global."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from skillopt.config import Config
from skillopt.envs.base import Env
from skillopt.models.errors import StopRequested
from skillopt.models.types import ChatModel
from skillopt.run.events import Events
from skillopt.run.folder import RunFolder
from skillopt.run.journaled import JournaledModel
from skillopt.run.spend import SpendMeter
from skillopt.types import Item, Role, Split


class Priority:
    """Of two waiting calls the lower number goes first: the critical path before what may come at any time.

    What a step asks comes after a gate, in its turn (``STEP``) or ahead of it (``AHEAD``).
    """

    GATE = 10
    AHEAD = 11
    STEP = 12
    BASELINE = 20
    PAIRS = 30
    TEST = 90


@dataclass(frozen=True)
class Context:
    """A run's configuration, environment, items, models, folder, meter and event stream.

    ``told`` is the configuration as its ``config.json`` tells it, with what came of it.
    ``ahead``: what is done in this context is done again in its turn. Until then it only asks the models.
    """

    config: Config
    env: Env
    items: Mapping[Split, Sequence[Item]]
    folder: RunFolder
    models: Mapping[Role, JournaledModel]
    meter: SpendMeter
    events: Events
    total_steps: int = 0
    told: Mapping[str, Any] = field(default_factory=dict)
    ahead: bool = False

    @property
    def selection_items(self) -> Sequence[Item]:
        """What the gate measures: the first ``evaluation.sel_env_num`` validation items, 0 for all."""
        return self.items["val"][: self.config.evaluation.sel_env_num or None]

    @property
    def test_items(self) -> Sequence[Item]:
        return self.items["test"][: self.config.evaluation.test_env_num or None]

    @property
    def capped(self) -> bool:
        """Whether a budget bounds the run: then nothing is sent before its turn."""
        budget = self.config.budget
        caps = (budget.max_calls, budget.max_tokens, budget.max_seconds, budget.max_usd)
        return any(cap is not None for cap in caps)

    def ahead_of_turn(self) -> Context:
        """The context for work ahead of its turn: nobody hears of it, and it ends nothing but itself."""
        return replace(self, events=Events(), ahead=True)

    def scope(self) -> Scope:
        return Scope(self, set())

    def stop(self, reason: StopRequested) -> StopRequested:
        """Admits no further request and returns what to raise."""
        if not self.ahead:
            self.meter.stop(reason)
        return reason


@dataclass(frozen=True)
class Scope:
    """A part of a run that will be committed as one: it collects the keys of the replies it rests on."""

    context: Context
    keys: set[str]

    @property
    def target(self) -> ChatModel:
        return self._model("target")

    @property
    def optimizer(self) -> ChatModel:
        return self._model("optimizer")

    def _model(self, role: Role) -> ChatModel:
        model = self.context.models[role]
        return model.ahead(Priority.AHEAD) if self.context.ahead else model.scoped(self.keys)
