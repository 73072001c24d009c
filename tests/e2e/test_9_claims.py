"""GPUs that are claimed by their memory, with the chart's value for it: placed, limited and shared, whatever dies."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from nvshare.deviceplugin.claims.quantity import whole
from tests.deploy.rendering import CHART
from tests.e2e.claims import (
    MIB,
    MIG_CLASS,
    breaches,
    capacity_of,
    claim,
    claiming,
    claims,
    devices,
    events_of,
    prepared,
    settings,
    slices,
    template,
    using_all,
)
from tests.e2e.conftest import GPUS, Helm
from tests.e2e.kubectl import (
    RESOURCE,
    SYSTEM,
    TESTS,
    KubectlError,
    Object,
    allocatable,
    apply,
    eventually,
    get,
    kubectl,
    rolled_out,
    scheduler_status,
)
from tests.e2e.node import POD, Node
from tests.e2e.programs import (
    delete,
    ended,
    events,
    is_untouched,
    kill_all_but,
    log,
    phase,
    pod,
    probing,
    running,
    tell_to_end,
)

pytestmark = pytest.mark.timeout(400)

GPU_MIB = 1024
SIZES = (64, 128, 256, 512)
"""Of what pods claim, in MiB: on GPUs of 32 GiB they would be 2, 4, 8 and 16."""
JOBS = 40


@pytest.fixture(scope="module")
def claimed(emptied: Node, helm: Helm) -> Iterator[Node]:
    """The node with the chart's value for claims."""
    helm("install", str(CHART), "--create-namespace", *settings())
    rolled_out()
    eventually("the GPUs can be claimed", lambda: len(devices()) == GPUS, 90)
    apply(*(template(f"of-{size}", size) for size in SIZES))
    yield emptied
    kill_all_but(POD)
    kubectl("delete", "resourceclaims,resourceclaimtemplates", "--all", "--namespace", TESTS)
    helm("uninstall", "--wait")


@pytest.fixture(autouse=True)
def alone(claimed: Node) -> Iterator[None]:
    """No other pod of the tests is there, before and after, and no claim is prepared any more."""
    yield
    kill_all_but(POD)
    kubectl("delete", "resourceclaims", "--all", "--namespace", TESTS)
    eventually("no claim is prepared", lambda: not prepared(claimed), 60)


def test_what_can_be_claimed(claimed: Node) -> None:
    """Each GPU with nearly twice its memory, by the overcommit, and its shares; nothing is written without a change."""
    for device in devices():
        assert device["allowMultipleAllocations"]
        assert GPU_MIB * MIB < capacity_of(device, "memory") <= 2 * GPU_MIB * MIB
        assert capacity_of(device, "shares") == 10
        assert device["attributes"]["type"] == {"string": "gpu"}
        assert device["name"] == device["attributes"]["uuid"]["string"].lower()
    before = [each["metadata"]["resourceVersion"] for each in slices()]
    assert "2 GPUs, 20 shares" in str(get("nodes")["items"][0]["status"]["conditions"])
    apply(claiming("one", using_all(2), own="of-128"))
    assert ended("one") == "Succeeded", log("one")
    assert [each["metadata"]["resourceVersion"] for each in slices()] == before
    delete("one")


@pytest.mark.timeout(800)
def test_forty_pods_of_all_sizes() -> None:
    """All are placed, as others end; each gets what it claimed and no more, and no GPU's requests are above it."""
    wanted = {f"job-{number}": SIZES[number % len(SIZES)] for number in range(JOBS)}
    begin = time.monotonic()
    apply(*(claiming(name, using_all(1), own=f"of-{size}") for name, size in wanted.items()))
    looked = 0
    while any(each["status"]["phase"] in {"Pending", "Running"} for each in jobs()):
        assert breaches() == []
        looked += 1
        assert time.monotonic() < begin + 600, kubectl("get", "pods", "--namespace", TESTS)
    print(f"{JOBS} pods took {time.monotonic() - begin:.0f} s; the status was looked at {looked} times")
    assert {each["metadata"]["name"]: each["status"]["phase"] for each in jobs()} == dict.fromkeys(wanted, "Succeeded")
    for name, size in wanted.items():
        said = events(name)
        assert (said[0]["total"], said[0]["have"], said[0]["answer"]) == (size, size, 2), name
        assert said[-1]["right"]


def test_two_claims_of_all_of_a_gpu_take_turns() -> None:
    """On each GPU: both programs have all that they claimed at the same time, and swap."""
    most = min(whole(each["capacity"]["memory"]["requestPolicy"]["validRange"]["max"]) for each in devices()) // MIB
    names = [f"all-{number}" for number in range(2 * GPUS)]
    apply(template("all", most), *(claiming(name, using_all(until_told=True), own="all") for name in names))
    for name in names:
        running(name)
        assert events(name)[0]["have"] == most
    for name in names:
        tell_to_end(name)
    assert {ended(name) for name in names} == {"Succeeded"}


def jobs() -> list[Object]:
    """The pods of the test above."""
    return [each for each in get("pods")["items"] if each["metadata"]["name"].startswith("job-")]


def test_a_shared_claim_is_one_account() -> None:
    """Two pods with one claim: what one has the other can't have, and both are on its GPU."""
    apply(claim("shared", 256), claiming("first", using_all(until_told=True), shared="shared"))
    first = running("first")
    apply(claiming("second", using_all(1), shared="shared"))
    assert ended("second") == "Succeeded", log("second")
    said = events("second")[0]
    assert (said["device"], said["total"], said["have"]) == (first.device, 256, 0)
    assert accounts_of_claims() == [f"claim:{TESTS}/shared"]
    tell_to_end("first")
    assert ended("first") == "Succeeded"


def accounts_of_claims() -> list[str]:
    """Those that have clients now."""
    clients = (client for device in scheduler_status()["devices"] for client in device["clients"])
    return sorted({client["member_of"] for client in clients if client["member_of"].startswith("claim:")})


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"weight": "heavy"}, "weight"),
        ({"memoryLimit": "64Mi"}, "memoryLimit of 64 MiB is less than the claim has"),
        ({"wieght": 2}, "there is no field 'wieght'; there are weight, priority,"),
        ({"kind": "GpuConfig"}, "kind is 'GpuConfig'; ShareConfig is expected"),
    ],
    ids=str,
)
def test_what_is_wrong_is_an_event(parameters: dict[str, object], message: str) -> None:
    """The pod does not begin, and its events say what is wrong with the claim."""
    apply(claim("wrong", 128, parameters), claiming("wrong", using_all(), shared="wrong"))
    eventually("an event says it", lambda: message in events_of("wrong"), 60)
    assert phase("wrong") == "Pending"


def test_what_a_claim_says_counts() -> None:
    """Its weight and limit are the account's; an annotation that says otherwise does not count, which an event says."""
    apply(claim("said", 128, {"weight": 3, "memoryLimit": "256Mi"}))
    made = claiming("said", using_all(until_told=True), shared="said")
    made["metadata"]["annotations"] = {"nvshare.com/memory-limit": "1Gi", "nvshare.com/weight": "7"}
    apply(made)
    running("said")
    assert events("said")[0]["have"] == 256
    (client,) = (client for device in scheduler_status()["devices"] for client in device["clients"])
    assert (client["terms"]["weight"], client["terms"]["memory_limit_bytes"]) == (3, 256 * MIB)
    eventually("an event says it", lambda: "nvshare.com/memory-limit" in events_of("said"), 60)
    tell_to_end("said")
    assert ended("said") == "Succeeded"


def test_pods_that_count_run_as_before() -> None:
    """One that asks for ``nvshare.com/gpu`` gets a share, sees all of the GPU, and is not limited."""
    apply(pod("counted", using_all(1)))
    assert ended("counted", 120) == "Succeeded", log("counted")
    said = events("counted")
    assert said[0]["total"] == GPU_MIB
    assert said[0]["have"] > GPU_MIB / 2
    assert said[-1]["right"]


@pytest.mark.parametrize("program", ["nvshare-device-plugin", "nvshare-scheduler", "kubelet", "containerd"])
def test_killed_while_claims_are_prepared(claimed: Node, program: str) -> None:
    """Killed again and again while pods come and go: all end well, and nothing is left of their claims.

    A container that kubelet or containerd is making when it dies fails, whatever it is for, and is made again. So does
    a program that begins in the ten seconds and more for which Kubernetes keeps the scheduler down, if the GPU is full.
    """
    names = [f"{number}-{program}" for number in range(12)]
    made = [claiming(name, using_all(1), own="of-256") for name in names]
    for each in made if program != "nvshare-device-plugin" else ():
        each["spec"]["restartPolicy"] = "OnFailure"
    apply(*made)
    for _ in range(4):
        claimed.kill(program)
        time.sleep(4)
    failed = {name: log(name) for name in names if ended(name, 200) != "Succeeded"}
    assert not failed
    delete(*names)
    eventually("no claim is prepared", lambda: not prepared(claimed), 90)
    eventually("no claim is left", lambda: not claims(), 60)


def test_from_claims_to_counting_and_back(claimed: Node, helm: Helm) -> None:
    """Pods of both kinds run on while the node changes, and can end; what one kind has the other does not give out."""
    for name, own in (("claims", "of-512"), ("brief", "of-128")):
        apply(claiming(name, using_all(until_told=True), own=own))
        running(name)
    by_claim = running("claims")
    helm("upgrade", str(CHART), *settings("allocation=plugin", "overcommit=null"))
    rolled_out()
    eventually("two shares are not offered again", lambda: allocatable() == 10 * GPUS - 2, 90)
    eventually("nothing can be claimed", lambda: not slices(), 90)
    apply(pod("counts", ["sleep", "600"]))
    eventually("it runs", lambda: phase("counts") == "Running", 60)
    tell_to_end("brief")
    assert ended("brief") == "Succeeded"
    delete("brief")
    eventually("one share is not offered again", lambda: allocatable() == 10 * GPUS - 1, 90)
    helm("upgrade", str(CHART), *settings())
    rolled_out()
    eventually("the GPUs can be claimed", lambda: len(devices()) == GPUS, 90)
    eventually("no virtual device is left", lambda: allocatable() == 0, 60)
    assert sorted(capacity_of(device, "shares") for device in devices()) == [9, 10]
    assert is_untouched(by_claim)
    assert restarts_of("counts") == 0
    tell_to_end("claims")
    assert ended("claims") == "Succeeded"
    delete("counts")
    eventually("all shares are there", lambda: {capacity_of(each, "shares") for each in devices()} == {10}, 60)


def restarts_of(name: str) -> int:
    """How often the pod's container was made anew."""
    count: int = get("pod", name)["status"]["containerStatuses"][0]["restartCount"]
    return count


@pytest.fixture
def patient(claimed: Node) -> Iterator[Node]:
    """The node, whose GPUs are well again afterwards, which the plugin believes after a minute."""
    yield claimed
    claimed.sicken("")
    eventually("no GPU has a taint", lambda: not any(device.get("taints") for device in devices()), 150)


def test_the_pods_status_has_its_gpus_health(patient: Node) -> None:
    """Its GPU is healthy there, then lost with the reason, then healthy again; the pod goes on all the while."""
    apply(claiming("watched", using_all(until_told=True), own="of-128"))
    watched = running("watched")
    eventually("its GPU is healthy", lambda: health_of("watched") == [("Healthy", "")], 60)
    (given,) = (each["status"]["allocation"]["devices"]["results"][0]["device"] for each in claims())
    (index,) = (each["attributes"]["index"]["int"] for each in devices() if each["name"] == given)
    patient.sicken(f"lost {index}")
    eventually("its GPU is unhealthy", lambda: [health for health, _ in health_of("watched")] == ["Unhealthy"], 60)
    assert health_of("watched")[0][1]
    eventually("it has a taint", lambda: [each["name"] for each in devices() if each.get("taints")] == [given], 30)
    patient.sicken("")
    eventually("its GPU is healthy again", lambda: health_of("watched") == [("Healthy", "")], 150)
    assert is_untouched(watched)
    tell_to_end("watched")
    assert ended("watched") == "Succeeded"


def health_of(name: str) -> list[tuple[str, str]]:
    """What the pod's status says of the GPUs that its container has, each with the reason."""
    (container,) = get("pod", name)["status"]["containerStatuses"]
    told = (each for one in container.get("allocatedResourcesStatus", []) for each in one["resources"])
    return [(each["health"], each.get("message", "")) for each in told]


def test_nobody_writes_for_another_node(claimed: Node) -> None:
    """With the driver's token one can't write a slice of another node, or of another driver."""
    (own,) = slices()
    for change in ({"nodeName": "elsewhere"}, {"driver": "gpu.example.com"}):
        document = {
            "apiVersion": own["apiVersion"],
            "kind": own["kind"],
            "metadata": {"name": "forged"},
            "spec": {**own["spec"], **change},
        }
        answer = kubectl(
            *("exec", "--namespace", SYSTEM, "daemonset/nvshare-device-plugin", "--", "python3", "-c", _CREATE),
            json.dumps(document),
        )
        assert "may write only slices of" in answer, answer


_CREATE = """
import os, ssl, sys, urllib.error, urllib.request
from pathlib import Path
folder = Path("/var/run/secrets/kubernetes.io/serviceaccount")
where = f"https://{os.environ['KUBERNETES_SERVICE_HOST']}:{os.environ['KUBERNETES_SERVICE_PORT']}"
request = urllib.request.Request(
    f"{where}/apis/resource.k8s.io/v1/resourceslices",
    sys.argv[1].encode(),
    {"Authorization": f"Bearer {(folder / 'token').read_text()}", "Content-Type": "application/json"},
)
try:
    urllib.request.urlopen(request, context=ssl.create_default_context(cafile=folder / "ca.crt"))
    print("written")
except urllib.error.HTTPError as error:
    print(error.read().decode())
"""


def test_the_node_shows_its_gpus(claimed: Node) -> None:
    """A pod with a claim of a share sees one GPU, as with a virtual device."""
    apply(template("share", None), claiming("sees", probing(), own="share"))
    assert ended("sees") == "Succeeded"
    (seen,) = json.loads(log("sees"))
    assert seen["uuid"].lower() in {device["name"] for device in devices()}


def test_a_pod_shows_that_claims_work(helm: Helm) -> None:
    """``helm test`` shows that its pod used a GPU of the size that it claimed; pod and claim are taken away."""
    assert "GPU 0: NVIDIA Simulated GPU, 64 MiB: used" in helm("test")
    for kind in ("pods", "resourceclaimtemplates"):
        assert "nvshare-test" not in {each["metadata"]["name"] for each in get(kind, namespace=SYSTEM)["items"]}
    eventually("its claim is gone", lambda: not get("resourceclaims", namespace=SYSTEM)["items"], 60)


def test_a_quota_limits_what_is_claimed() -> None:
    """With the sample a namespace has four devices. Pods of both kinds wait for one that ends, and events say why."""
    with quota("dra/resource-quota.yaml", "claimed-gpus"):
        within = [f"within-{number}" for number in range(4)]
        apply(*(claiming(name, IDLE, own="of-64") for name in within))
        eventually("four run", lambda: {phase(name) for name in within} == {"Running"}, 60)
        for document in (claim("beyond", 64), claim("of-a-mig-device", 64, device_class=MIG_CLASS)):
            with pytest.raises(KubectlError, match="exceeded quota: claimed-gpus"):
                apply(document)
        beyond = ["claims", "counts"]
        apply(claiming("claims", IDLE, own="of-64"), pod("counts", IDLE))
        eventually(
            "events say it", lambda: all("exceeded quota: claimed-gpus" in events_of(name) for name in beyond), 60
        )
        assert {phase(name) for name in beyond} == {"Pending"}
        delete(within[0])
        eventually("one more runs", lambda: "Running" in {phase(name) for name in beyond}, 120)
        assert {phase(name) for name in beyond} == {"Pending", "Running"}


def test_a_quota_of_the_name_counts_claims() -> None:
    """With the sample for it a pod that asks for the name is one, a claim is one, and what is above is refused."""
    with quota("resource-quota.yaml", "shared-gpus"):
        apply(claiming("claims", IDLE, own="of-64"), pod("counts", IDLE))
        eventually("both run", lambda: phase("claims") == phase("counts") == "Running", 60)
        assert get("resourcequota", "shared-gpus")["status"]["used"] == {f"requests.{RESOURCE}": "2"}
        for document in (pod("beyond", IDLE, gpus=3), claim("beyond", 64, count=3)):
            with pytest.raises(KubectlError, match=f"exceeded quota: shared-gpus, requested: requests.{RESOURCE}=3"):
                apply(document)


IDLE = ["sleep", "600"]


@contextmanager
def quota(sample: str, name: str) -> Iterator[None]:
    """The tests' namespace has the quota of a sample, and Kubernetes counts."""
    where = ("--namespace", TESTS, "--filename", f"deploy/samples/{sample}")
    kubectl("apply", *where)
    try:
        eventually("it counts", lambda: get("resourcequota", name)["status"]["used"], 60)
        yield
    finally:
        kubectl("delete", *where)
