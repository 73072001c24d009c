"""From the text of /proc/PID/cgroup to pod and container: what kubelet and the runtimes write."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nvshare.scheduler.pods.cgroups import Place, place_of

UID = "d8e2a9b4-0c51-4f5e-9c7e-3b1f0a6d2e11"
FLAT = UID.replace("-", "_")
STATIC = "0123456789abcdef0123456789abcdef"
ID = "86f54cfd2b47e1cf5b7879f56ce576767d24e65f938f3612c4a59b8599439944"
OTHER = "d" * 64
OTHER_UID = "11111111-2222-3333-4444-555555555555"
SLICE = "/kubepods.slice/kubepods-burstable.slice"


@pytest.mark.parametrize(
    "path",
    [
        f"/kubepods/burstable/pod{UID}/{ID}",
        f"/kubepods/pod{UID}/{ID}",
        f"/kubepods/besteffort/pod{UID}/crio-{ID}",
        f"{SLICE}/kubepods-burstable-pod{FLAT}.slice/cri-containerd-{ID}.scope",
        f"{SLICE}/kubepods-burstable-pod{FLAT}.slice/crio-{ID}.scope",
        f"{SLICE}/kubepods-burstable-pod{FLAT}.slice/crio-{ID}.scope/container",
        f"{SLICE}/kubepods-burstable-pod{FLAT}.slice/docker-{ID}.scope",
        f"/kubepods.slice/kubepods-pod{FLAT}.slice/cri-containerd-{ID}.scope",
        f"/system.slice/containerd.service/kubepods-burstable-pod{FLAT}.slice:cri-containerd:{ID}",
        f"/docker/{OTHER}/kubepods/besteffort/pod{UID}/{ID}",
        f"/docker/{OTHER}/kubelet/kubepods/pod{UID}/{ID}",
        f"/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-pod{FLAT}.slice/cri-containerd-{ID}.scope",
        f"/../../pod{UID}/{ID}",
        f"/../../kubepods-besteffort-pod{FLAT}.slice/cri-containerd-{ID}.scope",
        f"/../../../kubepods-burstable.slice/kubepods-burstable-pod{FLAT}.slice/crio-{ID}.scope",
        f"/kubepods/burstable/pod{UID}/{ID}/docker/{OTHER}",
        f"/kubepods/burstable/pod{UID}/{ID}/pod{OTHER_UID}/{OTHER}",
        f"{SLICE}/kubepods-burstable-pod{FLAT}.slice/cri-containerd-{ID}.scope/init",
    ],
)
@pytest.mark.parametrize("line", ["0::{}", "4:memory:{}", "1:name=systemd:{}"])
def test_place_in_a_pod(line: str, path: str) -> None:
    """The pod that is named first, and the container right after it; version 1 and 2."""
    assert place_of(line.format(path) + "\n") == Place(UID, ID)


def test_pod_from_a_file() -> None:
    """Static pods have a digest for a uid."""
    assert place_of(f"0::/kubepods/burstable/pod{STATIC}/{ID}\n") == Place(STATIC, ID)


@pytest.mark.parametrize(
    "path",
    [
        f"/kubepods/burstable/pod{UID}",
        f"/kubepods/burstable/pod{UID}/service",
        f"{SLICE}/kubepods-burstable-pod{FLAT}.slice",
        f"/kubepods/burstable/pod{UID}/{ID[:12]}",
    ],
)
def test_pod_without_container(path: str) -> None:
    """What is in the pod but not in a container that a runtime would name so."""
    assert place_of(f"0::{path}\n") == Place(UID, "")


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/user.slice/user-1000.slice/session-3.scope",
        f"/docker/{ID}",
        f"/system.slice/docker-{ID}.scope",
        f"/machine.slice/libpod-{ID}.scope",
        "/kubepods/burstable",
        "/kubepods.slice/kubepods-besteffort.slice",
        f"/tripod{UID}/{ID}",
        f"/kubepods/pod{UID[:-1]}/{ID}",
    ],
)
def test_place_outside_pods(path: str) -> None:
    """Sessions, services, containers that kubelet did not start, and what only looks like a pod."""
    assert place_of(f"0::{path}\n") is None


def test_mixed_hierarchies() -> None:
    """In version 1 a controller may be left at the root; one that knows the pod is enough."""
    text = f"12:hugetlb:/\n4:memory:/kubepods/burstable/pod{UID}/{ID}\n0::/\n"
    assert place_of(text) == Place(UID, ID)


@given(st.text())
def test_any_text(text: str) -> None:
    """Whatever a kernel of the future writes: an answer, and no place that the text does not name."""
    place = place_of(text)
    assert place is None or place.pod_uid[:8] in text
