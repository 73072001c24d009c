"""Communicators of NCCL tie processes, however a program reaches NCCL, and NCCL sees what the program gave."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from nvshare.protocol import wire
from tests.conftest import Libraries
from tests.shim.children import Children
from tests.shim.controlled_program import ControlledProgram
from tests.shim.fake_scheduler import FakeScheduler, silent
from tests.shim.lock_server import Peer
from tests.shim.nccl_programs import Nccl, joins, use

CONFIG_SIZE, RANKS = 77, 4


def sum_of_id(seed: int) -> int:
    """What an NCCL finds in the unique id."""
    return sum((seed + at) % 256 for at in range(128))


@pytest.fixture
def nccl(compile_c: Callable[..., Path], children: Children) -> Iterator[Nccl]:
    """Compiles and starts."""
    made = Nccl(compile_c, children, [])
    yield made
    for program in made.started:
        program.end()


def linked(nccl: Nccl, **variables: str) -> ControlledProgram:
    """A program that is linked with NCCL."""
    library = nccl.library()
    binary = nccl.compile_c("programs/nccl_user.c", "program", "-DMAIN", str(library), "-ldl", rpath(library))
    return nccl.start(binary, compiled=True, **variables)


def looks_up(nccl: Nccl) -> ControlledProgram:
    """A program that opens NCCL and looks its names up."""
    folder = nccl.library().parent
    binary = nccl.compile_c(
        "programs/nccl_user.c", "program", "-DMAIN", '-DLOOKED_UP="libnccl.so.2"', "-ldl", f"-Wl,-rpath,{folder}"
    )
    return nccl.start(binary, compiled=True)


def static(nccl: Nccl) -> ControlledProgram:
    """An object opened for itself that has NCCL in it, with its names seen from outside."""
    source = Path(__file__).parent / "programs/nccl.c"
    return nccl.start("local", nccl.plugin("plugin.so", source))


def opened(how: str) -> Callable[[Nccl], ControlledProgram]:
    """An object that is linked with NCCL, opened by Python, as PyTorch is."""

    def start(nccl: Nccl) -> ControlledProgram:
        library = nccl.library()
        return nccl.start(how, nccl.plugin("plugin.so", library, rpath(library)))

    return start


def not_linked(nccl: Nccl) -> ControlledProgram:
    """An object that is not linked with the NCCL that was opened before for all."""
    return nccl.start("local", nccl.plugin("plugin.so"), nccl.library())


def rpath(library: Path) -> str:
    """Where the library is found."""
    return f"-Wl,-rpath,{library.parent}"


@pytest.fixture
def program(nccl: Nccl) -> ControlledProgram:
    """One that is linked with NCCL."""
    return linked(nccl)


WAYS = {
    "linked": linked,
    "looked up": looks_up,
    "static": static,
    "opened locally": opened("local"),
    "opened globally": opened("global"),
    "deep binding": opened("deep"),
    "opened before": not_linked,
}


def nccl_command(program: ControlledProgram, words: str) -> str:
    """How a program is told to call NCCL."""
    return words if program.compiled else f"nccl {words}"


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS.keys())
def test_every_way_leads_here(
    nccl: Nccl, fake_scheduler: FakeScheduler, way: Callable[[Nccl], ControlledProgram]
) -> None:
    """JOIN is sent and waited for, NCCL gets the arguments as they were, and the end is told."""
    program = way(nccl)
    peer = use(program, fake_scheduler)
    join, answer = joins(program, peer, nccl_command(program, "rank 0 3 11"))
    assert answer == f"0 nccl InitRank {RANKS} {sum_of_id(11)} 3"
    assert (join.tie, join.size) == (wire.Tie.COLLECTIVE, RANKS)
    assert program.do(nccl_command(program, "destroy 0 0 0")) == "0 nccl Destroy 1"
    assert peer.expect(wire.Leave) == wire.Leave(join.key, wire.Tie.COLLECTIVE)


def test_all_ranks_say_the_same(nccl: Nccl, fake_scheduler: FakeScheduler) -> None:
    """Ranks of one communicator have the same key, in whatever way they join; others have another one."""
    program, other = linked(nccl), looks_up(nccl)
    peer = use(program, fake_scheduler)
    first, _ = joins(program, peer, "rank 0 0 11")
    second, _ = joins(program, peer, "rank 1 0 12")
    peer = use(other, fake_scheduler, 1)
    assert joins(other, peer, "config 0 1 11")[0].key == first.key
    assert joins(other, peer, "scalable 1 1 12")[0].key == second.key
    assert first.key != second.key


@pytest.mark.parametrize(
    ("call", "saw"),
    [
        ("rank 0 1 5", f"InitRank {RANKS} {sum_of_id(5)} 1"),
        ("config 0 1 5", f"InitRankConfig {RANKS} {sum_of_id(5)} 1 {CONFIG_SIZE}"),
        ("scalable 0 1 5", f"InitRankScalable {RANKS} 1 2 {sum_of_id(5)} {CONFIG_SIZE}"),
    ],
)
def test_nccl_gets_what_was_given(
    program: ControlledProgram, fake_scheduler: FakeScheduler, call: str, saw: str
) -> None:
    """All arguments arrive as they were."""
    assert joins(program, use(program, fake_scheduler), call)[1] == f"0 nccl {saw}"


def test_one_process_with_all_ranks(program: ControlledProgram, fake_scheduler: FakeScheduler) -> None:
    """ncclCommInitAll ties each device of its list, by a key that nobody else has."""
    first = use(program, fake_scheduler)
    program.begin("all 0 1 0")
    second = fake_scheduler.register()
    told = [peer.expect(wire.Join) for peer in (first, second)]
    for peer, join in zip((first, second), told, strict=True):
        program.waits()
        peer.send(wire.Joined(join.request))
    assert program.answer() == "0 nccl InitAll 2 1"
    assert told[0].key == told[1].key
    assert [join.size for join in told] == [2, 2]
    program.begin("all 2 0 0")
    again = [peer.expect(wire.Join) for peer in (first, second)]
    assert again[0].key == again[1].key != told[0].key
    for peer, join in zip((first, second), again, strict=True):
        peer.send(wire.Joined(join.request))
    assert program.answer() == "0 nccl InitAll 2 -1"
    for place, peer, join in ((0, first, told[0]), (1, second, told[1])):
        assert program.do(f"destroy {place} 0 0") == "0 nccl Destroy 1"
        assert peer.expect(wire.Leave).key == join.key


def children_of(program: ControlledProgram, peer: Peer, *calls: str) -> list[wire.Join]:
    """Makes a communicator and others of it; what was told of these."""
    joins(program, peer, "rank 0 0 11")
    return [joins(program, peer, call)[0] for call in calls]


def test_children_of_a_communicator(nccl: Nccl, fake_scheduler: FakeScheduler) -> None:
    """Ranks that make the same communicator of the same one have the same key, which no other one has."""
    one, other = linked(nccl), linked(nccl)
    calls = ["split 1 0 0", "split 2 0 0", "split 3 1 0", "shrink 4 3 2", "shrink 5 3 2"]
    peer = use(one, fake_scheduler)
    told = children_of(one, peer, *calls)
    assert len({join.key for join in told}) == len(calls)
    assert [join.size for join in told] == [0, 0, 0, 2, 2]
    assert one.do("abort 2 0 0") == "0 nccl Abort 1"
    assert peer.expect(wire.Leave).key == told[1].key
    peer = use(other, fake_scheduler)
    joins(other, peer, "rank 0 0 11")
    assert other.do("split 1 -1 0") == f"0 nccl Split 1 -1 0 {CONFIG_SIZE}"  # it takes part in the call alone
    assert joins(other, peer, "split 2 0 0")[0].key == told[1].key
    assert joins(other, peer, "split 3 1 0")[0].key == told[2].key
    assert joins(other, peer, "shrink 4 2 3")[0].key == told[3].key  # in another order


def test_a_grown_communicator(nccl: Nccl, fake_scheduler: FakeScheduler) -> None:
    """The rank that has both the old communicator and the new id ties those that have one of them."""
    old, root, new = linked(nccl), linked(nccl), linked(nccl)
    peer = use(old, fake_scheduler)
    by_parent = children_of(old, peer, "grow 1 -1 0")[0].key
    peer = use(new, fake_scheduler)
    by_id, answer = joins(new, peer, "grow 1 4 9")
    assert answer == f"0 nccl Grow 0 {RANKS + 1} {sum_of_id(9)} 4 {CONFIG_SIZE}"
    peer = use(root, fake_scheduler)
    joins(root, peer, "rank 0 0 11")
    root.begin("grow 1 -1 9")
    both = set()
    for _ in range(2):
        join = peer.expect(wire.Join)
        both.add(join.key)
        peer.send(wire.Joined(join.request))
    assert root.answer() == f"0 nccl Grow 1 {RANKS + 1} {sum_of_id(9)} -1 {CONFIG_SIZE}"
    assert both == {by_parent, by_id.key}
    assert root.do("destroy 1 0 0") == "0 nccl Destroy 1"
    assert {peer.expect(wire.Leave).key, peer.expect(wire.Leave).key} == both


def test_a_call_that_fails(nccl: Nccl, fake_scheduler: FakeScheduler) -> None:
    """Its result is the program's, and the tie ends at once."""
    library = nccl.library()
    program = nccl.start("local", nccl.plugin("plugin.so", library, rpath(library)), NCCL_RESULT="5")
    peer = use(program, fake_scheduler)
    join, answer = joins(program, peer, "nccl rank 0 0 1")
    assert answer.startswith("5 nccl InitRank")
    assert peer.expect(wire.Leave).key == join.key


def test_a_call_that_goes_on(nccl: Nccl, fake_scheduler: FakeScheduler) -> None:
    """ncclInProgress is no failure, neither when a communicator is made nor when it ends."""
    library = nccl.library()
    program = nccl.start("local", nccl.plugin("plugin.so", library, rpath(library)), NCCL_RESULT="7")
    peer = use(program, fake_scheduler)
    join, answer = joins(program, peer, "nccl rank 0 0 1")
    assert answer.startswith("7 nccl InitRank")
    assert silent(peer, 0.1)
    assert program.do("nccl destroy 0 0 0").startswith("7 nccl Destroy")
    assert peer.expect(wire.Leave).key == join.key


def test_an_end_that_fails(nccl: Nccl, fake_scheduler: FakeScheduler) -> None:
    """A communicator that could not be ended is one still, and so is its tie."""
    library = nccl.library()
    program = nccl.start("local", nccl.plugin("plugin.so", library, rpath(library)))
    peer = use(program, fake_scheduler)
    join, _ = joins(program, peer, "nccl rank 0 0 1")
    program.do("returns 5")
    assert program.do("nccl destroy 0 0 0") == "5 nccl Destroy 1"
    assert silent(peer, 0.1)
    program.do("returns 0")
    assert program.do("nccl destroy 0 0 0") == "0 nccl Destroy 1"
    assert peer.expect(wire.Leave).key == join.key


def test_a_handle_that_comes_again(nccl: Nccl, fake_scheduler: FakeScheduler) -> None:
    """A new communicator has the handle of an older one, which has ended without the library: so has its tie."""
    library = nccl.library()
    program = nccl.start("local", nccl.plugin("plugin.so", library, rpath(library)), NCCL_SAME="1")
    peer = use(program, fake_scheduler)
    first, _ = joins(program, peer, "nccl rank 0 0 1")
    second, _ = joins(program, peer, "nccl rank 1 0 2")
    assert peer.expect(wire.Leave).key == first.key
    assert program.do("nccl destroy 1 0 0") == "0 nccl Destroy 1"
    assert peer.expect(wire.Leave).key == second.key


def test_colors(nccl: Nccl, fake_scheduler: FakeScheduler) -> None:
    """Ranks that give one split different colors are of different communicators."""
    told = []
    for color in range(2):
        program = linked(nccl)
        told += children_of(program, use(program, fake_scheduler), f"split 1 {color} 0")
    assert told[0].key != told[1].key


def test_no_context_is_current(program: ControlledProgram, fake_scheduler: FakeScheduler) -> None:
    """Where the runtime has not made a context current yet, NCCL says which device it is, and the tie is told then."""
    program.do("open")
    program.begin("rank 0 0 1")
    peer = fake_scheduler.register()
    join = peer.expect(wire.Join)
    program.waits()
    peer.send(wire.Joined(join.request))
    assert program.answer() == f"0 nccl InitRank {RANKS} {sum_of_id(1)} 0"
    assert peer.register.device_uuid[:1] == b"b"


def test_several_nccls(nccl: Nccl, fake_scheduler: FakeScheduler, tmp_path: Path) -> None:
    """A process with several NCCLs calls in each what it would call without the library.

    The program is linked with one; an object that has its own finds that one all the same, and another looks names up.
    """
    first, second = several(nccl, tmp_path)
    binary = nccl.compile_c("programs/nccl_user.c", "program", "-DMAIN", str(first), "-ldl", rpath(first))
    looking = nccl.plugin("looking.so", f'-DLOOKED_UP="{second}"')
    source = Path(__file__).parent / "programs/nccl.c"
    program = nccl.start(binary, looking, nccl.plugin("own.so", source, '-DNAME="own"'), compiled=True)
    peer = use(program, fake_scheduler)
    assert joins(program, peer, "rank 0 0 1")[1].startswith("0 one InitRank")
    assert joins(program, peer, "in 1 rank 0 0 2")[1].startswith("0 two InitRank")
    assert program.do("in 1 destroy 0 0 0").startswith("0 two Destroy")
    peer.expect(wire.Leave)
    assert joins(program, peer, "in 2 rank 0 0 3")[1].startswith("0 one InitRank")


def test_several_nccls_of_plugins(nccl: Nccl, fake_scheduler: FakeScheduler, tmp_path: Path) -> None:
    """Objects that are opened for themselves reach the NCCL that they are linked with, or have in them."""
    first, second = several(nccl, tmp_path)
    binary = nccl.compile_c("programs/nccl_user.c", "program", "-DMAIN", '-DLOOKED_UP="none"', "-ldl")
    source = Path(__file__).parent / "programs/nccl.c"
    plugins = [nccl.plugin(f"of_{library.parent.name}.so", library, rpath(library)) for library in (first, second)]
    program = nccl.start(binary, *plugins, nccl.plugin("own.so", source, '-DNAME="own"'), compiled=True)
    peer = use(program, fake_scheduler)
    for number, name in enumerate(("one", "two", "own"), start=1):
        assert joins(program, peer, f"in {number} rank 0 0 {number}")[1].startswith(f"0 {name} InitRank")
    for number, name in enumerate(("one", "two", "own"), start=1):
        assert program.do(f"in {number} destroy 0 0 0").startswith(f"0 {name} Destroy")
        peer.expect(wire.Leave)


@pytest.mark.parametrize("first", [True, False])
def test_another_preloaded_library(
    nccl: Nccl, libraries: Libraries, fake_scheduler: FakeScheduler, first: bool
) -> None:
    """One that stands before NCCL, as profilers do, is called once, and so are we."""
    interposer = nccl.compile_c("programs/nccl_interposer.c", "interposer.so", "-shared", "-fPIC", "-ldl")
    order = [interposer, libraries.shim] if first else [libraries.shim, interposer]
    program = linked(nccl, LD_PRELOAD=":".join(map(str, order)))
    peer = use(program, fake_scheduler)
    assert joins(program, peer, "rank 0 0 1")[1] == f"0 nccl InitRank {RANKS} {sum_of_id(1)} 100"
    assert program.do("destroy 0 0 0") == "0 nccl Destroy 1"
    peer.expect(wire.Leave)


def test_lazy_and_deep_binding(nccl: Nccl, fake_scheduler: FakeScheduler) -> None:
    """An object that finds NCCL before us, and only when it calls it."""
    binary = nccl.compile_c("programs/nccl_user.c", "program", "-DMAIN", '-DLOOKED_UP="none"', "-ldl")
    library = nccl.library()
    program = nccl.start(binary, nccl.plugin("plugin.so", library, rpath(library), "-Wl,-z,lazy"), compiled=True)
    peer = use(program, fake_scheduler)
    assert joins(program, peer, "deep 1 rank 0 0 1")[1].startswith("0 nccl InitRank")
    assert program.do("deep 1 destroy 0 0 0").startswith("0 nccl Destroy")
    peer.expect(wire.Leave)


def several(nccl: Nccl, folder: Path) -> list[Path]:
    """Two NCCLs, of different names."""
    for name in ("one", "two"):
        (folder / name).mkdir()
    return [nccl.library(f"{name}/", f'-DNAME="{name}"') for name in ("one", "two")]
