"""What the status says of a client and of a device, in words and figures."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from rich.text import Text

from nvshare import display
from nvshare.admin import admin_pb2
from nvshare.container_names import PROCESS, claim_of, given
from nvshare.ctl.showing import memory

NOT_KNOWN = "?"
LABEL = 8
"""Columns of what a line about a device begins with."""
_SLEEPS = ("asleep", "waking")
_TRANSFER_CELLS = 8
_STILL_SECONDS = 1.0
"""Who has moved nothing for so long does not move at the rate of late."""


def mix_text(mix: admin_pb2.Mix) -> str:
    """Whether those that fit do better together, and what that was found from."""
    if mix.HasField("ratio"):
        found = f"{mix.ratio:.2f} of turns"
    elif mix.HasField("bursts"):
        found = f"bursts take {mix.bursts:.2f} times as long as in turns"
    else:
        return "measuring" if mix.measuring else "not known, so together"
    better = "turns" if mix.turns else "together"
    return f"{found}, so {better}" + (", measuring again" if mix.measuring else "")


def figures(client: admin_pb2.Client) -> dict[str, str]:
    """By the names of the table's columns."""
    pinned = display.size(client.pinned_bytes)
    found = {
        "FOOTPRINT": display.size(client.footprint_bytes) if client.HasField("footprint_bytes") else NOT_KNOWN,
        "PINNED": pinned if client.pinned_measured or not client.pinned_bytes else f"~{pinned}",
        "HELD": display.duration(client.held_seconds),
        "WAITED": display.duration(client.waited_seconds),
    }
    if client.HasField("swap"):
        swap = client.swap
        allotted = swap.allotted_bytes + swap.fixed_bytes
        found |= {
            "RESIDENT": display.size(memory.on_device(client)),
            "SWAPPED": display.size(swap.swapped_bytes),
            "STORED": display.size(swap.stored_bytes),
            "SHARED": display.size(swap.shared_bytes),
            "ALLOTTED": display.size(allotted),
        }
    else:
        found |= dict.fromkeys(("RESIDENT", "SWAPPED", "STORED", "SHARED", "ALLOTTED"), "")
    return found


def transfers(client: admin_pb2.Client, of_device: admin_pb2.Swapping) -> Iterable[Text]:
    """What is on the way now: how much of what can be swapped is on the device, as a bar, and how fast it moves."""
    swap = client.swap
    movable = max(client.footprint_bytes - swap.fixed_bytes, 1)
    share = min(swap.resident_bytes / movable, 1.0)
    cells = int(share * _TRANSFER_CELLS)
    for name, left, speed in (
        ("swap-in", swap.coming_bytes, of_device.in_bytes_per_second),
        ("swap-out", swap.leaving_bytes, of_device.out_bytes_per_second),
    ):
        if left:
            pace = display.rate(speed) if speed else ""
            if swap.still_seconds >= _STILL_SECONDS:
                pace = f"nothing for {display.duration(swap.still_seconds)}"
            text = f" {display.size(left)} left" + (f", {pace}" if pace else "")
            yield Text.assemble(f"{name} ", ("━" * cells, "cyan"), ("╌" * (_TRANSFER_CELLS - cells), "dim"), text)


def lasts(client: admin_pb2.Client) -> str:
    """For how long it has been asleep, or waking; empty: it is neither."""
    return display.duration(client.asleep_seconds) if client.state in _SLEEPS else ""


def memory_wait(client: admin_pb2.Client) -> str:
    """What memory its program waits for, and why where that is not only for others to make way; empty: for none."""
    wanted = client.swap.wanted_bytes
    start = f"waits for {display.size(wanted)} of memory" if wanted else "no memory yet" if client.memory_wait else ""
    return f"{start}: {client.memory_wait}" if client.memory_wait else start


def in_order(clients: Iterable[admin_pb2.Client]) -> list[admin_pb2.Client]:
    """By what they do, and those that wait in the order of their line."""
    order = list(display.STATE_STYLES)

    def rank(state: str) -> int:
        return order.index(state) if state in order else len(order)

    return sorted(clients, key=lambda each: (rank(each.state), each.position, each.id))


def terms_words(client: admin_pb2.Client) -> list[str]:
    """What of its terms is no default."""
    return list(told(client).values())


def told(client: admin_pb2.Client) -> dict[str, str]:
    """What of its terms is no default, by the names of the fields."""
    terms = client.terms
    all_terms = {
        "weight": f"weight {terms.weight:g}" if terms.weight not in (0, 1) else "",
        "priority": f"priority {terms.priority}" if terms.priority not in ("", "normal") else "",
        "compute_limit": f"compute {terms.compute_limit * 100:g} %" if terms.HasField("compute_limit") else "",
        "memory_limit_bytes": (
            f"limit {display.size(terms.memory_limit_bytes)}" if terms.HasField("memory_limit_bytes") else ""
        ),
        "memory_request_bytes": _request(client),
        "when_full": _when_full(client),
        "sleep": f"sleep {terms.sleep}" if terms.sleep else "",
    }
    return {name: text for name, text in all_terms.items() if text}


def origin(terms: admin_pb2.Terms, name: str) -> str:
    """Where one of the terms comes from, if not from the environment."""
    if name in terms.by_command:
        return " (set)"
    if name in terms.by_claim:
        return " (claim)"
    return " (annotation)" if name in terms.by_annotation else ""


def _request(client: admin_pb2.Client) -> str:
    requested, kept = client.terms.memory_request_bytes, client.memory_kept_bytes
    if not requested:
        return ""
    shown = f"request {display.size(requested)}"
    return shown if kept >= requested else f"{shown}, {display.size(kept) if kept else 'none'} of it kept"


def _when_full(client: admin_pb2.Client) -> str:
    said, usual = client.terms.when_full, "wait" if place(client.identity) else "refuse"
    return f"when full {said}" if said and said != usual else ""


def short_paths(command: str) -> str:
    """The command with ``…/NAME`` for every long path in it: then its first words fit the column."""
    return " ".join(
        f"…/{word.rsplit('/', 1)[1]}" if word.startswith("/") and word.count("/") > 1 else word
        for word in command.split()
    )


def place(identity: admin_pb2.Identity) -> str:
    """NAMESPACE/POD/CONTAINER as far as it is known; empty outside a cluster."""
    found = "/".join(part for part in (identity.namespace, identity.pod, identity.container) if part)
    return f"{found} (as it says)" if found and identity.source == "hint" else found


def client_name(client: admin_pb2.Client) -> str:
    """Of its pod and container, else what somebody called it; empty: neither."""
    return place(client.identity) or given(client.member_of)


def claimed_words(claimed: admin_pb2.ClaimedMemory) -> str:
    """What claims have of a GPU."""
    sizes = {
        "promised": claimed.promised_bytes,
        "consumed": claimed.consumed_bytes,
        "kept": claimed.requested_bytes,
        "resident": claimed.resident_bytes,
    }
    shares = display.count(claimed.shares, "share")
    return f"{', '.join(f'{what} {display.size(size)}' for what, size in sizes.items())}; {shares}"


def container_of(client: admin_pb2.Client) -> str:
    """What ``set`` knows the account by, where that is a name; empty: it is one process alone."""
    if claim_of(client.member_of):
        return given(client.member_of)
    name = client.member_of.rpartition("@")[0]
    return "" if name.startswith(PROCESS) else name


def waits(client: admin_pb2.Client, pids: Mapping[int, int], waiters: int) -> tuple[str, str, str] | tuple[()]:
    """What it waits for, in fewer and fewer words; ``pids``: by the clients' ids, ``waiters``: how many wait."""
    if client.gang.expected and client.state == "waiting":
        come = f"{client.gang.come} of {client.gang.expected}"
        return f"its gang: {come} have come", f"its gang, {come}", "its gang"
    if client.position:
        time, place_in_line = display.duration(client.waiting_seconds), f"{client.position} of {waiters}"
        what, short = _in_the_way(client, [pids[number] for number in client.behind if number in pids])
        if not what:
            return f"{time}, {place_in_line}", time, time
        return f"{time}, {place_in_line}, for {what}", f"{time} for {short}", f"for {short}"
    if client.swap.wanted_bytes:
        wanted = display.size(client.swap.wanted_bytes)
        return f"for {wanted} of memory", f"for {wanted}", "memory"
    return ("for memory", "for memory", "memory") if client.memory_wait else ()


def _in_the_way(client: admin_pb2.Client, holders: Sequence[int]) -> tuple[str, str]:
    """What a client in line waits for, and that in fewer words; empty: nothing that has a name."""
    if client.too_large:
        return "others to end", "others' end"
    if holders:
        listed = ", ".join(map(str, holders))
        return listed, listed if len(holders) == 1 else f"{len(holders)} others"
    if not client.swap.swapped_bytes:
        return "", ""
    return ("its data", "its data") if client.swap.coming_bytes else ("room on the GPU", "room")


def notes(device: admin_pb2.Device, clients: Sequence[admin_pb2.Client]) -> Iterator[tuple[str, Text]]:
    """What more there is to say of a device's clients, below their table: labels, each with a text."""
    for client in clients:
        for text in transfers(client, device.swapping):
            yield _note("moving", client, text)
    for client in clients:
        if said := ", ".join(f"{text}{origin(client.terms, name)}" for name, text in told(client).items()):
            is_container = place(client.identity) and not claim_of(client.member_of)
            by_name = "" if is_container or not client.member_of else f"{client.member_of}: "
            yield _note("terms", client, Text(f"{by_name}{said}", "dim"))
    yield from _gangs(clients)
    for client in clients:
        for reason in _reasons(client):
            yield _note("waits", client, Text(reason, "yellow"))
        for notice in (*([f"drain: {client.drain}"] if client.drain else []), *client.notices):
            yield _note("notice", client, Text(notice, "yellow"))
    yield from _awake(clients)


def _awake(clients: Iterable[admin_pb2.Client]) -> Iterator[tuple[str, Text]]:
    """Who of those can't sleep whose memory would leave, and why."""
    pids: dict[str, list[str]] = {}
    for client in clients:
        if client.awake_reason and client.HasField("swap"):
            pids.setdefault(client.awake_reason, []).append(str(client.pid or NOT_KNOWN))
    for reason, listed in pids.items():
        yield "awake", Text.assemble(f"{', '.join(listed)}  ", (f"can't sleep: {reason}", "dim"))


def _reasons(client: admin_pb2.Client) -> Iterator[str]:
    """Why it waits, where the table has no room for that. What that says in full is not said again."""
    if client.too_large and client.position:
        yield f"{display.size(client.footprint_bytes)} don't fit beside what can't leave the GPU"
    if client.memory_wait or (client.position and client.swap.wanted_bytes):
        yield memory_wait(client).removeprefix("waits ")


def _gangs(clients: Iterable[admin_pb2.Client]) -> Iterator[tuple[str, Text]]:
    gangs: dict[str, list[admin_pb2.Client]] = {}
    for client in clients:
        if client.HasField("gang"):
            gangs.setdefault(client.gang.name, []).append(client)
    for name, members in gangs.items():
        gang = members[0].gang
        here = f"{gang.members} of {gang.size}" if gang.size > gang.members else str(gang.members)
        come = f"; {gang.come} of {gang.expected} have come" if gang.expected else ""
        apart = ", which do not fit together" if gang.apart else ""
        pids = ", ".join(str(member.pid or NOT_KNOWN) for member in members)
        text = f"{name}: {here} client{'' if here == '1' else 's'}{apart}{come} ({pids})"
        yield "gang", Text(text, "yellow" if apart or come else "dim")


def _note(label: str, client: admin_pb2.Client, text: Text) -> tuple[str, Text]:
    return label, Text.assemble(f"{client.pid or NOT_KNOWN}  ", text)
