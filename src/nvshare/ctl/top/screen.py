"""The whole screen: what a person chose, what the keys do, and what is drawn of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime

from rich.console import Group, RenderableType
from rich.text import Text

from nvshare import display
from nvshare.admin import admin_pb2
from nvshare.ctl.asking.terms_request import request
from nvshare.ctl.options.terms import answer, meant
from nvshare.ctl.top.feed import Feed
from nvshare.ctl.top.figures import Colors, shares
from nvshare.ctl.top.sections import SORTINGS, Look, in_sorting, name_of, overview, section

KEYS = "q quit  ? help  up/down GPU, p policy, +/- quantum  left/right program, s set"
_HELP = """\
Keys

  up, down, tab   choose a GPU
  p               its policy: then a auto, e exclusive, o off
  + -             its quantum, the next longer or shorter one
  left, right     choose a program of that GPU
  r               its priority: then l low, n normal, h high, d as it was before
  s               set anything of it, as nvshare-ctl set does: weight 2.5,
                  memory-limit 4G, ...; Enter sets it, Escape leaves it
  space           pause: the screen stays as it is until the next space
  q, Ctrl-C       quit;  Ctrl-Z stop, until the shell's fg

Clients in the order of
  o  what they do (and those that wait in their line)      i  pid
  m  memory on the GPU      t  time of late      w  how long they wait

TIME is for which share of the history that is shown a client held the GPU.
USED is in which share of that the GPU worked, by NVML, while it held alone.
In the history a bar is a turn, shaded where memory moved.
In the memory bar every client has the sign and color of its row.
To set anything takes the scheduler's own user. What is set of a program is set
of all that counts as one container with it.
"""
_QUANTA = (0.5, 1, 2, 3, 5, 10, 15, 20, 30, 45, 60, 90, 120, 180, 300, 600)
_POLICIES = {"a": "auto", "e": "exclusive", "o": "off"}
_ASK_POLICY = "policy of {}: a auto, e exclusive, o off; any other key leaves it"
_PRIORITIES = {"l": "low", "n": "normal", "h": "high", "d": "default"}
_ASK_PRIORITY = "priority of {}: l low, n normal, h high, d as it was before it was set; any other key leaves it"


@dataclass(slots=True)
class Screen:
    """What a person chose, and the picture of the scheduler that is shown."""

    feed: Feed
    only: str
    """The UUID of the only device to show; empty: all."""
    status: admin_pb2.Status = field(default_factory=admin_pb2.Status)
    seen: admin_pb2.Timeline = field(default_factory=admin_pb2.Timeline)
    colors: Colors = field(default_factory=Colors)
    chosen: str = ""
    """A device's UUID."""
    sorting: str = "STATE"
    paused: bool = False
    helping: bool = False
    program: int = 0
    """The id of the chosen client, of the chosen device; 0: none."""
    asking: str = ""
    """What the next key answers: policy or priority; empty: nothing."""
    typed: str | None = None
    """What was typed so far of what is to be set of the program; None: nothing is being typed."""
    quanta: dict[str, float] = field(default_factory=dict)
    """By device: what was asked for of late. Keys that are pressed quickly go on from there."""

    def update(self) -> None:
        """Takes what is new, unless it is paused."""
        self.feed.take()
        if self.paused:
            return
        self.status, self.seen = self.feed.status(), self.feed.timeline
        uuids = [device.uuid for device in self._devices()]
        if self.chosen not in uuids:
            self.chosen = uuids[0] if uuids else ""

    def press(self, key: str) -> bool:
        """Does what the key means; False: to quit."""
        if self.typed is not None:
            self._type(key)
        elif self.asking:
            self._answer(key)
        elif self.helping:
            self.helping = False
        elif key == "q":
            return False
        else:
            self._do(key)
        return True

    def draw(self, width: int, height: int) -> RenderableType:
        """So many lines at the most."""
        if self.helping:
            return Text(_HELP, no_wrap=True, overflow="ellipsis")
        chosen = self._program()
        look = Look(
            width,
            self.colors,
            self._shares(),
            self.sorting,
            0 if chosen is None else chosen.id,
            self.feed.use.shares(),
        )
        devices = self._devices()
        lines = [self._heading(width)]
        if devices:
            lines += overview(_around(devices, self.chosen, max(height // 4, 3)), self.chosen, look)
            lines += self._sections(devices, look, height - len(lines) - 1)
        else:
            lines += [Text(), Text("No device yet: no client has used one since the scheduler started.")]
        lines = lines[: height - 1]
        lines += [Text()] * (height - 1 - len(lines))
        return Group(*lines, self._bottom())

    def _devices(self) -> list[admin_pb2.Device]:
        return [device for device in self.status.devices if self.only in ("", device.uuid)]

    def _shares(self) -> dict[int, float]:
        return shares(self.seen, self.status.uptime_seconds)

    def _chosen(self) -> admin_pb2.Device | None:
        return next((device for device in self._devices() if device.uuid == self.chosen), None)

    def _program(self) -> admin_pb2.Client | None:
        device = self._chosen()
        return None if device is None else next((one for one in device.clients if one.id == self.program), None)

    def _heading(self, width: int) -> Text:
        if self.feed.lost:
            return Text(self.feed.lost, "bold yellow", no_wrap=True, overflow="ellipsis")
        status = self.status
        parts = [
            f"nvshare {status.version}",
            f"{datetime.now().astimezone():%H:%M:%S}",
            f"up {display.duration(status.uptime_seconds)}",
        ]
        if status.host_memory_bytes:
            used, budget = display.size(status.host_memory_used_bytes), display.size(status.host_memory_bytes)
            parts.append(f"host memory {used} of {budget}")
        if status.swap_file_bytes:
            used, budget = display.size(status.swap_file_used_bytes), display.size(status.swap_file_bytes)
            parts.append(f"disk {used} of {budget}")
        paused = ("  PAUSED", "bold yellow") if self.paused else ""
        return Text.assemble(("  ".join(parts), "bold"), paused, no_wrap=True, overflow="ellipsis")

    def _sections(self, devices: list[admin_pb2.Device], look: Look, height: int) -> list[Text]:
        """Of all devices where there is room for all that there is to show; else of the chosen one."""
        whole = [[Text(), *section(device, self.seen, look, 10 * height)] for device in devices]
        if sum(map(len, whole)) <= height:
            return [line for lines in whole for line in lines]
        chosen = self._chosen()
        return [] if chosen is None else [Text(), *section(chosen, self.seen, look, height - 1)]

    def _bottom(self) -> Text:
        if text := self._question() or self.feed.said:
            return Text(text, "bold", no_wrap=True, overflow="ellipsis")
        return Text(KEYS, "dim", no_wrap=True, overflow="ellipsis")

    def _question(self) -> str:
        """What is asked for now; empty: nothing."""
        device, program = self._chosen(), self._program()
        if self.asking == "policy" and device is not None:
            return _ASK_POLICY.format(name_of(device))
        if self.asking == "priority" and program is not None:
            return _ASK_PRIORITY.format(program.member_of)
        if self.typed is not None and program is not None:
            return f"set of {program.member_of}: {self.typed}_"
        return ""

    def _do(self, key: str) -> None:
        self.feed.said = ""
        match key:
            case "up" | "down":
                self._choose(-1 if key == "up" else 1)
            case "left" | "right":
                self._choose_program(-1 if key == "left" else 1)
            case "p":
                self.asking = "policy" if self._chosen() is not None else ""
            case "r" if self._can_be_set():
                self.asking = "priority"
            case "s" if self._can_be_set():
                self.typed = ""
            case "+" | "=" | "-":
                self._change_quantum(longer=key != "-")
            case " ":
                self.paused = not self.paused
            case "?" | "h":
                self.helping = True
            case _ if key in SORTINGS:
                self.sorting = SORTINGS[key]
            case _:
                pass

    def _choose(self, step: int) -> None:
        uuids = [device.uuid for device in self._devices()]
        if self.chosen in uuids:
            self.chosen = uuids[(uuids.index(self.chosen) + step) % len(uuids)]
            self.program = 0

    def _choose_program(self, step: int) -> None:
        device = self._chosen()
        ids = [] if device is None else [each.id for each in in_sorting(device, self.sorting, self._shares())]
        if self.program in ids:
            self.program = ids[(ids.index(self.program) + step) % len(ids)]
        elif ids:
            self.program = ids[0 if step > 0 else -1]

    def _can_be_set(self) -> bool:
        """Whether a program is chosen that belongs to a container; says what is missing."""
        program = self._program()
        if program is None:
            self.feed.said = "no program is chosen: left and right choose one"
        elif not program.member_of:
            self.feed.said = f"pid {program.pid or '?'} is not known well enough yet to set anything of it"
        return program is not None and bool(program.member_of)

    def _answer(self, key: str) -> None:
        asked, self.asking = self.asking, ""
        device = self._chosen()
        if asked == "policy" and device is not None and key in _POLICIES:
            self.feed.set_policy(device.uuid, _POLICIES[key], name_of(device))
        elif asked == "priority" and key in _PRIORITIES:
            self._set(f"priority {_PRIORITIES[key]}")

    def _type(self, key: str) -> None:
        """One more key of what is typed."""
        assert self.typed is not None
        match key:
            case "enter":
                text, self.typed = self.typed, None
                self._set(text)
            case "escape":
                self.typed = None
            case "backspace":
                self.typed = self.typed[:-1]
            case _ if len(key) == 1 and key.isprintable():
                self.typed += key
            case _:
                pass

    def _set(self, text: str) -> None:
        """As nvshare-ctl set does with these words, of the program that is chosen."""
        program = self._program()
        if program is None or not text.strip():
            return
        command, _, value = text.strip().partition(" ")
        try:
            asked = request(*meant(command, value.strip()), program.member_of)
        except ValueError as error:
            self.feed.said = str(error)
            return
        self.feed.set_terms(asked, answer(command, program.member_of, value.strip()))

    def _change_quantum(self, *, longer: bool) -> None:
        device = self._chosen()
        if device is None:
            return
        now = self.quanta.get(device.uuid, device.quantum_seconds) if self.feed.busy else device.quantum_seconds
        further = [each for each in _QUANTA if (each > now if longer else each < now)]
        if further:
            self.quanta[device.uuid] = further[0] if longer else further[-1]
            self.feed.set_quantum(device.uuid, self.quanta[device.uuid], name_of(device))


def _around(devices: list[admin_pb2.Device], chosen: str, most: int) -> list[admin_pb2.Device]:
    """At most so many, the chosen one among them."""
    place = next((number for number, device in enumerate(devices) if device.uuid == chosen), 0)
    begin = max(0, min(place - most // 2, len(devices) - most))
    return devices[begin : begin + most]
