"""What of a kubeconfig leads to no cluster: each is said in one line, before anybody is asked."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.ctl.kubectl.fake_kubernetes import Cluster, serving, write_kubeconfig
from tests.ctl.kubectl.plugin import COMMAND, plugin, plugin_environment
from tests.ctl.terminal import in_session
from tests.polling import poll_until


@pytest.fixture
def kubeconfig(tmp_path: Path) -> Path:
    return tmp_path / "config"


@pytest.fixture
def cluster(kubeconfig: Path) -> Iterator[Cluster]:
    """One that would answer."""
    cluster = Cluster()
    with serving(cluster, kubeconfig):
        yield cluster


def log_in_by(kubeconfig: Path, login: dict[str, object]) -> None:
    """Gives the user of a kubeconfig an exec plugin."""
    document = yaml.safe_load(kubeconfig.read_text())
    document["users"][0]["user"]["exec"] = {"apiVersion": "client.authentication.k8s.io/v1", **login}
    kubeconfig.write_text(yaml.safe_dump(document))


@pytest.mark.parametrize(
    ("plugin_said", "why"),
    [
        ({"command": "/nonexistent/login"}, "[Errno 2] No such file or directory: '/nonexistent/login'"),
        (
            {"command": "sh", "args": ["-c", "echo first log >&2; echo in >&2; exit 3"]},
            "process returned 3. first log in",
        ),
        ({"command": "echo", "args": ["{}"]}, "malformed response. missing key 'apiVersion'"),
        ({}, "malformed request. missing key 'command'"),
    ],
)
def test_an_exec_plugin_that_fails(
    cluster: Cluster, kubeconfig: Path, plugin_said: dict[str, object], why: str
) -> None:
    """It is said, and nobody is asked without credentials: what the server would say of that misleads."""
    log_in_by(kubeconfig, plugin_said)
    done = plugin(kubeconfig, "status")
    assert (done.returncode, done.stdout, cluster.executed) == (1, "", [])
    assert done.stderr == (
        f"kubectl nvshare: no cluster to ask: {kubeconfig}: the exec plugin of its user gives no credentials: {why}\n"
    )


def test_an_exec_plugin_that_fails_in_a_terminal(cluster: Cluster, kubeconfig: Path) -> None:
    """What it says itself is there to be read."""
    log_in_by(kubeconfig, {"command": "sh", "args": ["-c", "echo log in first >&2; exit 3"]})
    with in_session([*COMMAND, "status"], plugin_environment(kubeconfig), columns=300) as shown:
        poll_until(lambda: "gives no credentials: see what it said" in shown.output(), "it is said", timeout=30)
        assert "log in first" in shown.output()


@pytest.mark.parametrize(
    ("variable", "options", "missing"),
    [
        ("", (), "~/.kube/config"),
        ("/nowhere", (), "/nowhere"),
        (None, ("--kubeconfig", "/nowhere"), "/nowhere"),
    ],
)
def test_no_file(variable: str | None, options: tuple[str, ...], missing: str) -> None:
    """That is said; an empty variable names none, as for kubectl."""
    done = plugin(variable, "status", *options)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (
        f"kubectl nvshare: no cluster to ask: there is no file {missing}; name another with --kubeconfig\n"
    )


def test_a_file_that_can_not_be_looked_at(kubeconfig: Path) -> None:
    """It may be there: the reason is said, and not that there is none."""
    place = kubeconfig.with_name("x" * 300)
    done = plugin(f"/nowhere:{place}", "status")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (
        f"kubectl nvshare: no cluster to ask: {place} can't be read: File name too long; "
        "name another with --kubeconfig\n"
    )


def test_a_folder_in_the_place_of_the_file(tmp_path: Path) -> None:
    """In words, without the number of the error."""
    done = plugin(tmp_path, "status")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (
        f"kubectl nvshare: no cluster to ask: {tmp_path}: Is a directory; see --kubeconfig and --context\n"
    )


@pytest.mark.usefixtures("cluster")
def test_which_of_several_files(kubeconfig: Path) -> None:
    """The one that is no kubeconfig is named; one that is not there is left out, as by kubectl."""
    broken = kubeconfig.with_name("broken")
    broken.write_text("a: [")
    done = plugin(f"{kubeconfig}:/nowhere:{broken}", "status")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (
        f"kubectl nvshare: no cluster to ask: {broken} is no kubeconfig; name another with --kubeconfig\n"
    )


@pytest.mark.parametrize("server", ["", "here:6443", "ftp://here"])
def test_a_server_that_is_none(kubeconfig: Path, server: str) -> None:
    """It is named, in one line."""
    write_kubeconfig(kubeconfig, server)
    done = plugin(kubeconfig, "status")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (
        f"kubectl nvshare: no cluster to ask: {kubeconfig}: the server {server!r} of its cluster is wrong; "
        "allowed: https://HOST:PORT\n"
    )


@pytest.mark.parametrize("proxy", ["socks5://127.0.0.1:1080", "ftp://here"])
def test_a_proxy_that_can_not_be_used(kubeconfig: Path, proxy: str) -> None:
    """It is named, in one line, with what can be."""
    write_kubeconfig(kubeconfig, "https://here", **{"proxy-url": proxy})
    done = plugin(kubeconfig, "status")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (
        f"kubectl nvshare: no cluster to ask: {kubeconfig}: the proxy-url {proxy!r} of its cluster can't be used here; "
        "allowed: http://HOST:PORT\n"
    )
