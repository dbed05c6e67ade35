"""One run from start to end: folder, models, training or evaluation, and how it ended."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from skillopt.concurrency import cancel_all
from skillopt.config import Config, Redactor, flatten
from skillopt.engine.context import Context
from skillopt.engine.errors import RoleError
from skillopt.engine.models import OpenClients, journaled, open_clients
from skillopt.engine.passes import Passes
from skillopt.engine.prepare import Prepared, thinking_modes, write_splits
from skillopt.engine.resume import TRAINING, open_run
from skillopt.engine.state import RunState
from skillopt.engine.summary import summarise
from skillopt.models.errors import ModelError, StopRequested
from skillopt.run.events import EVENTS, EventLog, Events, Listener
from skillopt.run.folder import FINISH, RunFolder, dump_json
from skillopt.run.spend import Caps, SpendMeter
from skillopt.skill import Skill

T = TypeVar("T")

_STOPS: tuple[signal.Signals, ...] = (signal.SIGINT, signal.SIGTERM)
"""What a person stops a run with."""
if sys.platform == "win32":  # Ctrl-Break can be sent to one process there, Ctrl-C cannot
    _STOPS = (*_STOPS, signal.SIGBREAK)
_INTERRUPTED = "interrupted; all finished work is saved"
_HEAD_START = 0.005
"""Seconds in which the probes have been sent."""


@dataclass(frozen=True)
class Ending:
    """How a run ended. ``reason`` is the ``stop_reason`` of its summary; ``detail`` the cause in words, role first."""

    root: Path
    summary: Mapping[str, Any]
    reason: str
    detail: str = ""


async def train(
    prepared: Prepared,
    environ: Mapping[str, str],
    redactor: Redactor,
    listeners: Sequence[Listener],
    connect: OpenClients = open_clients,
) -> Ending:
    """Trains, or goes on training, in the run folder of the configuration. ``connect`` opens the models.

    Raises ``FolderError`` or ``ResumeError`` when the folder is refused and ``RoleError`` when a model does not answer:
    then nothing was spent but the probes.
    """
    with open_run(prepared, TRAINING, redactor.mask) as folder:
        finished = folder.journal.record(FINISH)
        folder.restore()
        if finished is not None:
            return Ending(folder.root, finished["summary"], "completed", "already finished")
        write_splits(prepared.env, folder.root)
        # A secret in the first skill must reach no prompt and no file.
        prepared = replace(prepared, skill=Skill(redactor.mask(prepared.skill.text)))
        log = EventLog(folder.root / EVENTS, redactor.mask)
        try:
            events = Events(log, *listeners)
            with _tracked(prepared, folder.root, events, redactor.mask):
                ending = await _train(prepared, folder, environ, events, connect)
            return replace(ending, detail=redactor.mask(ending.detail))
        finally:
            log.close()


def _tracked(
    prepared: Prepared, root: Path, events: Events, mask: Callable[[str], str]
) -> AbstractContextManager[None]:
    """The trackers of the run, which hear its events as long as the context lasts."""
    if not prepared.trackers:
        return nullcontext()
    from skillopt.trackers import Start, tracking

    parameters = {key: mask(str(value)) for key, value in run_config(prepared).items()}
    start = Start(root, root.name, prepared.config.logging.tracker_prefix, parameters)
    return tracking(prepared.trackers, start, events, mask)


async def _train(
    prepared: Prepared, folder: RunFolder, environ: Mapping[str, str], events: Events, connect: OpenClients
) -> Ending:
    config, told = prepared.config, run_config(prepared)
    meter = SpendMeter(folder.journal, caps_of(prepared), prices=prepared.prices)
    _announce(prepared, folder, events, meter)
    folder.commit("config", {}, {"config.json": dump_json(told)})
    if folder.journal.record("start") is None:
        folder.commit("start", {}, {"best_skill.md": prepared.skill.to_bytes()})
    try:
        clients = connect(config, prepared.roles, meter, environ, _say(events))
        async with journaled(clients, folder, grace_of(config), prepared.prices, probe_now=True) as models:
            await asyncio.sleep(_HEAD_START)
            from skillopt.engine.trainer import Trainer  # while the probes are on their way: it takes a while too

            outside = folder, models, meter, events
            context = Context(config, prepared.env, prepared.items, *outside, prepared.steps, told)
            async with Passes(context) as passes:
                trainer = Trainer(context, passes, prepared.plan, prepared.skill)
                summary, stop = await until_stopped(passes.beside(trainer.run()), meter, events)
    except RoleError as error:
        events.emit("run_stopped", reason="error", detail=str(error))
        raise
    except (asyncio.CancelledError, KeyboardInterrupt):  # a second Ctrl-C: requests in flight are not waited for
        events.emit("run_stopped", reason="interrupted", detail=_INTERRUPTED)
        raise
    finally:
        meter.save()
    if summary is not None:
        events.emit("run_finished", reason="completed")
        return Ending(folder.root, summary, "completed")
    assert stop is not None
    summary = stopped_summary(context, prepared, stop.reason)
    folder.write({"summary.json": dump_json(summary)})
    events.emit("run_stopped", reason=stop.reason, detail=stop.detail)
    return Ending(folder.root, summary, stop.reason, stop.detail)


async def until_stopped(
    work: Coroutine[Any, Any, T], meter: SpendMeter, events: Events
) -> tuple[T | None, StopRequested | None]:
    """The result of ``work``, or why it stopped: a budget, too many errors, or Ctrl-C (``_STOPS``).

    A ``ModelError`` that ends a run (a refused key) is a stop for ``error``.
    """
    task = asyncio.ensure_future(work)
    interrupted = StopRequested("interrupted", _INTERRUPTED)
    ended = False

    def end(reason: StopRequested, note: str) -> None:
        nonlocal ended
        ended = True
        meter.stop(reason)
        events.emit("note", text=f"stopping: {note}")
        task.cancel()

    def interrupt() -> None:
        end(interrupted, "requests in flight are waited for; a second Ctrl-C ends at once")

    left = meter.seconds_left()
    # Calls that only wait for a busy endpoint do not look at the clock.
    timer = (
        asyncio.get_running_loop().call_later(left, end, meter.time_is_up(), "time is up") if left is not None else None
    )
    with _signals(interrupt):
        try:
            return await task, None
        except StopRequested as stop:
            return None, stop
        except RoleError:
            raise
        except ModelError as error:
            return None, StopRequested("error", str(error))
        except asyncio.CancelledError:
            if not ended:
                raise
            return None, meter.stopped or interrupted
        finally:
            if timer is not None:
                timer.cancel()
            meter.stop(StopRequested("error", "the run has ended"))  # what is still queued must not be sent
            await cancel_all([task])


@contextmanager
def _signals(handler: Callable[[], None]) -> Iterator[None]:
    """Calls ``handler`` on one of ``_STOPS`` where this thread can have signal handlers, once; a second Ctrl-C then
    interrupts as usual."""
    loop = asyncio.get_running_loop()
    caught: dict[signal.Signals, Any] = {}

    def once(number: signal.Signals) -> None:
        _let_go(loop, number)
        handler()

    for number in _STOPS:
        before = signal.getsignal(number)
        try:
            _catch(loop, number, partial(once, number))
        except (RuntimeError, ValueError):
            break  # not the main thread: the default handling stays
        caught[number] = before
    try:
        yield
    finally:
        for number, before in caught.items():
            _let_go(loop, number)
            signal.signal(number, before)


def _catch(loop: asyncio.AbstractEventLoop, number: signal.Signals, call: Callable[[], None]) -> None:
    try:
        loop.add_signal_handler(number, call)
    except NotImplementedError:  # Windows: its loop wakes up for a signal, but has no handlers of its own
        signal.signal(number, lambda *_: loop.call_soon_threadsafe(call))


def _let_go(loop: asyncio.AbstractEventLoop, number: signal.Signals) -> None:
    try:
        loop.remove_signal_handler(number)
    except NotImplementedError:
        signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)


def stopped_summary(context: Context, prepared: Prepared, reason: str) -> dict[str, Any]:
    """The summary of a run that has more to do, from its last commit."""
    state = last_state(context.folder) or RunState.initial(prepared.skill)
    return summarise(context, state, None, state.current_scores, stop_reason=reason)


def last_state(folder: RunFolder) -> RunState | None:
    """The state of the newest commit that holds one."""
    states = folder.journal.fields("", "state")
    return RunState.model_validate(states[-1]) if states else None


def grace_of(config: Config) -> float:
    """How long requests in flight are waited for when a run ends, in seconds."""
    return min(config.model.timeout_seconds, 30.0)


def caps_of(prepared: Prepared) -> Caps:
    budget = prepared.config.budget
    return Caps(budget.max_calls, budget.max_tokens, budget.max_seconds, budget.max_usd)


def run_config(prepared: Prepared) -> dict[str, Any]:
    """``config.json``: the resolved configuration, flat, with the derived fields."""
    train = prepared.config.train
    size = len(prepared.items["train"])
    steps = prepared.steps // max(1, train.num_epochs)
    modes = thinking_modes(prepared.roles)
    return {
        **flatten(prepared.config),
        "train_size": size,
        "steps_per_epoch": steps,
        "batches_per_epoch": steps * train.accumulation,
        "samples_per_epoch": size,
        "optimizer_backend": prepared.roles["optimizer"].spec.provider,
        "target_backend": prepared.roles["target"].spec.provider,
        **({"resolved_qwen_thinking_modes": modes} if modes else {}),
    }


def _announce(prepared: Prepared, folder: RunFolder, events: Events, meter: SpendMeter) -> None:
    notes = [note for role in prepared.roles.values() for note in role.notes]
    events.emit(
        "run_started",
        env=prepared.env.name,
        **{role: resolved.spec.model for role, resolved in prepared.roles.items()},
        **{split: len(items) for split, items in prepared.items.items()},
        epochs=len(prepared.plan),
        steps=prepared.steps,
        out_root=str(folder.root),
        tokens=meter.tokens,
        cost_usd=meter.cost_usd,
        notes=list(dict.fromkeys(notes)),
    )


def _say(events: Events) -> Callable[[str], None]:
    return lambda text: events.emit("note", text=text)
