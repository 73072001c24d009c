"""From what was found out about this machine to what it means for sharing its GPUs. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from nvshare import display, huge_pages, paths
from nvshare.ctl.advice import FOR_ALL
from nvshare.ctl.doctor import program_checks
from nvshare.ctl.doctor.findings import Finding, Level
from nvshare.ctl.doctor.machine_facts import Machine, Scheduler, Socket, SwapDir
from nvshare.nvml_state import NvmlState, advice

_PROHIBITED, _EXCLUSIVE = 2, 3
_WITHOUT_HUGE_PAGES = ("never", "deny")
_OK, _NOTE, _PROBLEM = Level.OK, Level.NOTE, Level.PROBLEM


def check(machine: Machine) -> tuple[Finding, ...]:
    """Everything that was looked at, in the order in which things depend on each other."""
    return (
        *_driver(machine),
        *_cuda(machine),
        *_library(machine),
        *_scheduler(machine),
        *_sockets(machine),
        *_gpus(machine),
        *program_checks.others(machine),
        *program_checks.stopped(machine),
        *program_checks.awake(machine),
        *_modes(machine),
        *_kernel(machine),
        *_memory(machine),
        *_huge_pages(machine),
        *_disk(machine.scheduler.swap_dir),
        *_shell(machine),
    )


def _driver(machine: Machine) -> Iterator[Finding]:
    nvml = machine.nvml
    if nvml.state is NvmlState.OK:
        count = f"{len(nvml.gpus)} GPU{'s' if len(nvml.gpus) != 1 else ''}"
        yield Finding(_OK, "driver", f"version {nvml.driver_version}, {count}")
    else:
        yield Finding(_PROBLEM, "driver", f"NVML: {nvml.error or 'shows no GPU'}", advice(nvml.state))
    for gpu in nvml.gpus:
        if gpu.error:
            yield Finding(_PROBLEM, "driver", f"GPU {gpu.index}: NVML: {gpu.error}", advice(NvmlState.ERROR))


def _cuda(machine: Machine) -> Iterator[Finding]:
    cuda = machine.cuda
    if not cuda.path:
        yield Finding(
            _PROBLEM, "libcuda", f"not found: {cuda.error}", "install NVIDIA's driver, or give its folder to the loader"
        )
        return
    folder = cuda.path.rpartition("/")[0]
    by = "LD_LIBRARY_PATH" if folder in machine.library_path.split(":") else "the loader's own folders"
    if cuda.error:
        yield Finding(_PROBLEM, "libcuda", f"{cuda.path}: {cuda.error}", "run nvidia-smi on this machine")
        return
    version = f"CUDA {cuda.version // 1000}.{cuda.version % 1000 // 10}"
    yield Finding(_OK, "libcuda", f"{cuda.path}, by {by}, {version}")
    if not cuda.virtual_memory:
        return
    lacking = [str(number) for number, has in enumerate(cuda.virtual_memory) if not has]
    if lacking:
        what = f"device {', '.join(lacking)} has no virtual memory management: its memory is paged, and does not swap"
        yield Finding(_NOTE, "virtual memory", what, "it works, slower; NVSHARE_MEMORY=native only counts")
    else:
        yield Finding(_OK, "virtual memory", "every device can swap")


def _library(machine: Machine) -> Iterator[Finding]:
    library = machine.library
    if library.error:
        yield Finding(_PROBLEM, "libnvshare", library.error, "install nvshare for this machine again")
    else:
        yield Finding(_OK, "libnvshare", f"{library.path} loads")


def _scheduler(machine: Machine) -> Iterator[Finding]:
    scheduler = machine.scheduler
    if machine.original_listens:
        what = f"a scheduler of the original nvshare listens at {machine.original_listens}; it can't serve this library"
        yield Finding(_PROBLEM, "old socket", what, "end it, and start nvshare-scheduler instead")
    yield _answer(scheduler, machine.own_version)
    for other in machine.others:
        what = f"{other}: programs overlap there with those of another scheduler, or wait for its end"
        yield Finding(_PROBLEM, "other scheduler", what, f"one scheduler for all users: {FOR_ALL}; or end the other")
    for uuid in scheduler.policies_off:
        what = f"{uuid}: its policy is off, so nobody takes turns there"
        yield Finding(_NOTE, "policy", what, "nvshare-ctl set policy auto")


def _answer(scheduler: Scheduler, own_version: str) -> Finding:
    """Whether one answers, and which."""
    if scheduler.error:
        return Finding(_PROBLEM, "scheduler", scheduler.error)
    if scheduler.only_for_clients:
        what = f"one answers at {scheduler.run_dir}, which has only what its clients need, as in a container"
        return Finding(_OK, "scheduler", what)
    if scheduler.left:
        what = f"none answers at {scheduler.run_dir}: {scheduler.left}"
        advice = "nvshare-ctl run or nvshare-scheduler starts the next one; why it ended is in its log"
        return Finding(_PROBLEM, "scheduler", what, advice)
    if not scheduler.answers:
        what = f"none runs at {scheduler.run_dir}"
        return Finding(_NOTE, "scheduler", what, "nvshare-ctl run starts one; or start nvshare-scheduler")
    if scheduler.version != own_version:
        what = f"version {scheduler.version} at {scheduler.run_dir}, and this is {own_version}"
        return Finding(_NOTE, "scheduler", what, "update the older one; what only one of them knows is not used")
    return Finding(_OK, "scheduler", f"version {scheduler.version}, pid {scheduler.pid}, at {scheduler.run_dir}")


def _sockets(machine: Machine) -> Iterator[Finding]:
    return map(_socket, machine.scheduler.sockets)


def _socket(socket: Socket) -> Finding:
    is_for_all = bool(socket.wanted & 0o006)
    who = "every user" if is_for_all else "its own user"
    if not socket.mode:
        return Finding(_PROBLEM, "socket", f"{socket.path} is gone", "the scheduler makes it anew within seconds")
    if socket.mode != socket.wanted:
        what = f"{socket.path} has mode {socket.mode:o}, not {socket.wanted:o}"
        return Finding(_PROBLEM, "socket", what, f"chmod {socket.wanted:o} {socket.path}: it is for {who}")
    if is_for_all and not socket.usable:
        what = f"{socket.path} is for every user, and this one can't come there"
        return Finding(_PROBLEM, "socket", what, "let others through the folders above it (chmod o+x)")
    own = "" if socket.usable else ", not for this one"
    return Finding(_OK, "socket", f"{socket.path}, mode {socket.mode:o}: for {who}{own}")


def _gpus(machine: Machine) -> Iterator[Finding]:
    known, shown = set(machine.scheduler.devices), {gpu.uuid for gpu in machine.nvml.gpus if gpu.uuid}
    if not machine.scheduler.version or not shown:
        return
    if strange := sorted(uuid for uuid in known - shown if not uuid.startswith("MIG-")):
        what = f"the scheduler knows {', '.join(strange)}, which NVML does not show here"
        yield Finding(_NOTE, "GPUs", what, "look whether NVIDIA_VISIBLE_DEVICES hides them")


def _modes(machine: Machine) -> Iterator[Finding]:
    for gpu in machine.nvml.gpus:
        if gpu.compute_mode in (_EXCLUSIVE, _PROHIBITED):
            mode = "EXCLUSIVE_PROCESS" if gpu.compute_mode == _EXCLUSIVE else "PROHIBITED"
            what = f"GPU {gpu.index}: its compute mode {mode} lets {'one process' if mode[0] == 'E' else 'nobody'} in"
            yield Finding(_PROBLEM, "compute mode", what, f"nvidia-smi -i {gpu.index} -c DEFAULT")
    if machine.mps_pids or machine.mps_variable:
        pids = ", ".join(map(str, machine.mps_pids))
        what = f"MPS runs (pid {pids})" if pids else "CUDA_MPS_PIPE_DIRECTORY is set"
        yield Finding(_PROBLEM, "MPS", f"{what}: it lets processes overlap", "echo quit | nvidia-cuda-mps-control")


def _kernel(machine: Machine) -> Iterator[Finding]:
    pods = "pods are told by them" if machine.pods_known else "no kubelet here"
    if machine.cgroup_version:
        yield Finding(_OK, "cgroups", f"version {machine.cgroup_version}, {pods}")
    else:
        what = "none is mounted: pods can't be told, and host memory is not held within a limit"
        yield Finding(_NOTE, "cgroups", what)
    if machine.hidden_pids:
        what = "/proc hides other users' processes (hidepid): this user can't see who uses a GPU"
        yield Finding(_NOTE, "pids", what, "run doctor as root")
    if machine.own_pid_namespace:
        what = "this is a pid namespace of its own: NVML's pids are others than the ones here"
        yield Finding(_NOTE, "pids", what, "run doctor on the host to see who uses a GPU")


def _memory(machine: Machine) -> Iterator[Finding]:
    available, total = machine.memory_available_bytes, sum(gpu.total_bytes for gpu in machine.nvml.gpus)
    budget = machine.scheduler.host_bytes
    said = f"{display.size(available)} free" + (f", the scheduler may use {display.size(budget)}" if budget else "")
    if total and available < total:
        what = f"host memory: {said}; the GPUs have {display.size(total)}"
        yield Finding(_NOTE, "host memory", what, "less than a whole GPU of memory may be swapped out at a time")
    else:
        yield Finding(_OK, "host memory", said)
    limit = machine.locked_limit_bytes
    if limit is not None:
        what = f"a process may lock {display.size(limit)}; the driver pins memory by itself, and swapping needs no more"
        yield Finding(_OK, "memlock", what)


def _huge_pages(machine: Machine) -> Iterator[Finding]:
    chosen = machine.huge_pages
    if not machine.scheduler.host_bytes or not chosen:
        return
    said = f"(shmem_enabled: {chosen})"
    if chosen in _WITHOUT_HUGE_PAGES:
        what = f"host memory for swapping has none {said}, so programs that slept are back later"
        setting = huge_pages.SETTING
        lasting = f"for good, in /etc/tmpfiles.d/nvshare.conf: w {setting} - - - - advise"
        yield Finding(_NOTE, "huge pages", what, f"echo advise > {setting}, and start the scheduler anew; {lasting}")
    else:
        yield Finding(_OK, "huge pages", f"host memory for swapping may have them {said}")


def _disk(swap_dir: SwapDir | None) -> Iterator[Finding]:
    if swap_dir is None:
        return
    folder, free_bytes = swap_dir.folder, swap_dir.free_bytes
    said = f"{display.size(swap_dir.used_bytes)} of {display.size(swap_dir.size_bytes)} used in {folder}"
    if free_bytes is None:
        yield Finding(_NOTE, "disk", f"{said}, which is not here", f"mkdir {folder}, unless it is another machine's")
    elif swap_dir.in_memory or swap_dir.remote:
        where = "memory, which it is to spare" if swap_dir.in_memory else "another machine's disk"
        yield Finding(_NOTE, "disk", f"{said}: that is in {where}", "--swap-dir with a folder on a local disk")
    elif free_bytes < swap_dir.size_bytes - swap_dir.used_bytes:
        what = f"{said}; of the rest the disk has {display.size(free_bytes)} free"
        yield Finding(_NOTE, "disk", what, "free some of it, or lower --swap-size")
    else:
        yield Finding(_OK, "disk", said)


def _shell(machine: Machine) -> Iterator[Finding]:
    entries = [entry for entry in machine.preload.replace(" ", ":").split(":") if entry]
    ours = [entry for entry in entries if entry.rpartition("/")[2] == paths.LIBRARY_NAME]
    if machine.scheduler.only_for_clients:
        if ours:
            yield Finding(_OK, paths.LD_PRELOAD, f"names {', '.join(ours)}: what starts here takes turns")
        else:
            library = paths.CONTAINER_LIBRARY_DIR / paths.LIBRARY_NAME
            what = "does not name nvshare's library: what starts here takes no turns"
            yield Finding(
                _PROBLEM, paths.LD_PRELOAD, what, f"take LD_PRELOAD away from the pod, or begin it with {library}"
            )
    elif any(entry != machine.library.path for entry in ours):
        what = f"LD_PRELOAD names another nvshare: {', '.join(ours)}"
        yield Finding(_PROBLEM, paths.LD_PRELOAD, what, "unset LD_PRELOAD")
    elif ours:
        yield Finding(_NOTE, paths.LD_PRELOAD, "names nvshare's library: all that this shell starts takes turns")
    elif entries:
        what = f"has {', '.join(entries)}, which stays behind nvshare's library"
        yield Finding(_NOTE, paths.LD_PRELOAD, what)
    else:
        yield Finding(_OK, paths.LD_PRELOAD, "is not set; nvshare-ctl run sets it")
