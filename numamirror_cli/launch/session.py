"""One run, from the child's start to its end: what happened, for the report."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from numamirror_cli.errors import described
from numamirror_cli.launch.child import Ending, Supervisor, start
from numamirror_cli.launch.event_pipe import EventPipe
from numamirror_cli.launch.events import PASSING, Event, EventSocket
from numamirror_cli.launch.family import descendants, has_variable, is_descendant
from numamirror_cli.launch.signals import HeldSignals, Witness, call_witness
from numamirror_cli.launch.snapshots import WHEN_BUILT, Snapshot, Snapshots
from numamirror_cli.launch.status_pages import StatusPages

if TYPE_CHECKING:
    from numamirror_cli.memory.status_page import MirrorStatus

# A server that loads models all day long must not fill our memory with events.
_MOST_EVENTS = 2000


# A status page whose hello got lost is looked for in /proc: often at first, since a short program
# is gone soon, then with each look at the placement.
_LOOK_SECONDS, _PATIENCE_SECONDS = 0.2, 20.0


@dataclass(frozen=True)
class Outcome:
    """What happened. seconds: how long the child ran.

    events: all but those that only pass, the first of them; ignored: datagrams that were no events
    of ours.
    handshake: the shim said hello from some process. mirror: its status page at the end, of the
    process with most GEMM weights, None when there was none; mirror_problem: why it can't be read.
    mirrors: how many processes had weights. snapshot: the last look at the placement. fault: of
    ours, which ended the watching before the child's end, "" for none.
    """

    pid: int
    ending: Ending
    seconds: float
    events: tuple[Event, ...] = ()
    ignored: int = 0
    handshake: bool = False
    mirror: MirrorStatus | None = None
    mirror_problem: str = ""
    mirrors: int = 0
    snapshot: Snapshot | None = None
    snapshot_problem: str = ""
    fault: str = ""


@dataclass
class Journal:
    """What was heard from the shim so far."""

    events: list[Event] = field(default_factory=list)
    engine_pid: int | None = None
    engines: set[int] = field(default_factory=set)
    handshake: bool = False

    def note(self, event: Event) -> None:
        if event.name not in PASSING and len(self.events) < _MOST_EVENTS:
            self.events.append(event)
        self.handshake = True
        if event.name in ("engine", "build", "coverage"):
            self.engine_pid = event.pid
            self.engines.add(event.pid)


class Session:
    """A child and all that watches it."""

    def __init__(self, nodes: Iterable[int], shim: str, on_event: Callable[[Event], None]) -> None:
        """nodes: the machine's, for the placement. shim: the file that is preloaded, "" for none.
        on_event: called for each event, live."""
        self._on_event = on_event
        self._journal = Journal()
        self._snapshots = Snapshots(nodes, shim)
        self._pages = StatusPages()
        self._events = _open_events(self._pages) if shim else None
        self._signals: HeldSignals | None = None
        self._witness = Witness(0, -1)
        self._pid = 0
        self._started = 0.0
        self._ended = 0.0
        self._fault = ""

    @property
    def events_name(self) -> str:
        """What NUMAMIRROR_EVENTS has to say; "" when nothing is preloaded."""
        return self._events.name if self._events else ""

    def start(self, program: Path, command: Sequence[str], environ: Mapping[str, str]) -> None:
        """Start the child. Raises NumaMirrorError (126, 127) when it cannot be run, and OSError
        when we lack what it takes to run it below us; signals then act on us again."""
        self._signals = signals = HeldSignals()
        try:
            self._witness = call_witness()
            self._started = time.monotonic()
            self._pid = start(program, command, environ, signals.mask)
        except BaseException:
            self._let_go()
            raise

    def watch(self) -> Outcome:
        """Watch the child that was started to its end."""
        assert self._signals is not None
        listeners = {self._events.fileno(): self._listen} if self._events else {}
        try:
            supervisor = Supervisor(self._pid, self._signals, self._witness)
            ending = supervisor.wait(listeners, self._tick)
            self._ended = time.monotonic()
            self._listen()
            self._snapshots.finish()
            return self._outcome(ending)
        finally:
            self._let_go()

    def _let_go(self) -> None:
        if self._events:
            self._events.close()
        self._pages.close()
        self._witness.dismiss()
        if self._signals:
            self._signals.release()

    def _listen(self) -> bool:
        """Hear what the shim says; whether there is sense in listening on."""
        try:
            self._hear()
        except Exception as fault:
            self._give_up(fault)
        return not self._fault

    def _tick(self) -> float | None:
        """What is due; returns the seconds until something is again."""
        try:
            return None if self._fault else self._look()
        except Exception as fault:
            self._give_up(fault)
            return None

    def _give_up(self, fault: Exception) -> None:
        """A fault of ours ends the watching and not the program: it runs on, and so do we."""
        self._fault = self._fault or described(fault)

    def _hear(self) -> None:
        if self._events is None:
            return
        for event in self._events.receive(self._seconds(), self._is_ours):
            self._journal.note(event)
            if event.name == "hello":
                self._pages.forget_ended(worth_keeping=self._journal.engines)
            elif event.name == "coverage":
                self._snapshots.ask(reason_to_look(event))
            self._on_event(event)

    def _is_ours(self, pid: int) -> bool:
        # A process whose parents have ended belongs to init; its environment still tells.
        return is_descendant(pid, self._pid) or has_variable(
            pid, "NUMAMIRROR_EVENTS", self.events_name
        )

    def _look(self) -> float:
        """Look for pages and at the placement, where that is due."""
        due = self._snapshots.seconds_until_due()
        waiting = not self._pages and self._seconds() < _PATIENCE_SECONDS
        if not self._pages and (due == 0.0 or waiting):
            self._pages.look_for(descendants(self._pid))
        if due == 0.0:
            self._snapshots.take(self._main_process(), self._seconds())
            due = self._snapshots.seconds_until_due()
        return min(due, _LOOK_SECONDS) if waiting else due

    def _main_process(self) -> int:
        """The engine's process; before one is known, the largest that the child has become."""
        engine = self._journal.engine_pid
        if engine is not None and Path(f"/proc/{engine}").exists():
            return engine
        return max(descendants(self._pid), key=_resident_pages)

    def _seconds(self) -> float:
        """Since the child's start. What is heard after its end was said before."""
        return (self._ended or time.monotonic()) - self._started

    def _outcome(self, ending: Ending) -> Outcome:
        statuses, problem = self._pages.read()
        return Outcome(
            pid=self._pid,
            ending=ending,
            seconds=self._seconds(),
            events=tuple(self._journal.events),
            ignored=self._events.ignored if self._events else 0,
            handshake=self._journal.handshake or len(self._pages) > 0,
            mirror=max(statuses, key=lambda status: status.gemm_bytes, default=None),
            mirror_problem=problem,
            mirrors=len({status.pid for status in statuses if status.gemm_bytes}),
            snapshot=self._snapshots.latest,
            snapshot_problem=self._snapshots.problem,
            fault=self._fault,
        )


def reason_to_look(event: Event) -> str:
    """What the report says of a look that a coverage event brings about: such an event also comes
    where nothing was copied, by observe or for want of room."""
    return WHEN_BUILT if event.number("mirrored_bytes") else ""


def _open_events(pages: StatusPages) -> EventSocket | EventPipe:
    try:
        return EventSocket(pages.keep)
    except OSError:  # a filter, or a unit's RestrictAddressFamilies=
        return EventPipe(lambda pid: pages.look_for([pid]))


def _resident_pages(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    except (OSError, ValueError, IndexError):
        return 0
