"""The cluster's schedulers, asked through the Kubernetes API: ``nvshare-ctl`` is executed in each one's pod."""

from __future__ import annotations

import json
import logging
import queue
import re
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from logging.handlers import BufferingHandler
from pathlib import Path
from typing import Any

import kubernetes.stream
import urllib3
import websocket
import yaml
from kubernetes import client, config
from kubernetes.client.exceptions import ApiException

from nvshare.ctl.errors import CommandError, ExitCode
from nvshare.ctl.kubectl.answers import NodeAnswer

_SELECTOR = "app.kubernetes.io/name=nvshare-scheduler"
_CONTAINER = "scheduler"
_PROGRAM = "nvshare-ctl"
_HTTP = ("http://", "https://")
_API_SECONDS = 15.0
_ANSWER_SECONDS = 20.0
"""More than nvshare-ctl itself waits for the scheduler."""
_AT_ONCE = 16
_MOST_LOGGED = 16
"""Lines of the client that are kept; after so many none is."""
_OF_ANOTHER_KIND = (yaml.YAMLError, AttributeError, KeyError, TypeError, ValueError, RecursionError)
"""What the client makes of a file that is no kubeconfig."""
_API_MESSAGE = re.compile(r'"message": ?"([^"]+)"')
"""In the body of an error, which is not always where errors keep it."""


class Cluster:
    """One cluster, as a kubeconfig describes it."""

    def __init__(self, kubeconfig: Path | None, context: str | None, namespace: str) -> None:
        """None: what kubectl would take. CommandError where that names no cluster."""
        self._namespace = namespace
        self._configuration = client.Configuration()
        file = kubeconfig or config.kube_config.KUBE_CONFIG_DEFAULT_LOCATION
        # The client logs, and does not raise, that an exec plugin failed, and would ask without credentials.
        said = BufferingHandler(_MOST_LOGGED)
        logging.getLogger().addHandler(said)
        try:
            _check(str(file))
            config.load_kube_config(  # type: ignore[no-untyped-call]
                None if kubeconfig is None else str(kubeconfig), context, client_configuration=self._configuration
            )
        except (config.ConfigException, OSError) as error:
            why = error.strerror if isinstance(error, OSError) else error
            raise CommandError(f"no cluster to ask: {file}: {why}; see --kubeconfig and --context") from error
        except _OF_ANOTHER_KIND as error:
            raise _no_kubeconfig(str(file)) from error
        if said.buffer:
            why = _of_plugin(said.buffer[-1].getMessage())
            raise CommandError(f"no cluster to ask: {file}: the exec plugin of its user gives no credentials: {why}")
        host, proxy = self._configuration.host, self._configuration.proxy
        if not host.startswith(_HTTP):
            server = f"the server {host!r} of its cluster is wrong; allowed: https://HOST:PORT"
            raise CommandError(f"no cluster to ask: {file}: {server}")
        if proxy and not proxy.startswith(_HTTP):
            # One for SOCKS the client could take to list pods, and not to execute anything in them.
            way = f"the proxy-url {proxy!r} of its cluster can't be used here; allowed: http://HOST:PORT"
            raise CommandError(f"no cluster to ask: {file}: {way}")
        self._configuration.retries = False
        websocket.setdefaulttimeout(_API_SECONDS)

    def ask_all(self, *arguments: str, only: str = "") -> list[NodeAnswer]:
        """What nvshare-ctl with these arguments says of every scheduler, by the names of the nodes.

        ``only``: of this node's. CommandError where there is none.
        """
        pods = self._pods()
        if not pods:
            raise CommandError(
                f"no scheduler in namespace {self._namespace} (no pod with the label {_SELECTOR}); "
                "name another with --namespace, or install nvshare: kubectl apply -f deploy/",
                ExitCode.NO_SCHEDULER,
            )
        asked = [pod for pod in pods if only in ("", pod.spec.node_name)]
        if not asked:
            there = ", ".join(sorted(str(pod.spec.node_name) for pod in pods))
            raise CommandError(f"no scheduler on node {only!r}; there are some on: {there}", ExitCode.NO_SCHEDULER)
        answers = _at_once(lambda pod: self._ask(pod, arguments), asked)
        return sorted(answers, key=lambda answer: (answer.node, answer.pod))

    def _api(self) -> Any:
        """An API of its own for each thread: executing changes it for a moment."""
        return client.CoreV1Api(client.ApiClient(self._configuration))

    def _pods(self) -> list[Any]:
        try:
            found = self._api().list_namespaced_pod(
                self._namespace, label_selector=_SELECTOR, _request_timeout=_API_SECONDS
            )
        except (ApiException, urllib3.exceptions.HTTPError) as error:
            raise CommandError(f"cannot list the schedulers' pods in {self._namespace}: {_reason(error)}") from error
        return _present(found.items)

    def _ask(self, pod: Any, arguments: Sequence[str]) -> NodeAnswer:
        name, node = pod.metadata.name, pod.spec.node_name or "(no node yet)"
        halted = _not_running(pod)
        if pod.status.phase != "Running":
            why = f": {halted}" if halted else ""
            return NodeAnswer(node, name, error=f"its scheduler's pod {name} is {pod.status.phase}{why}")
        if halted:
            look = f"kubectl --namespace {self._namespace} logs {name}"
            return NodeAnswer(node, name, error=f"the scheduler in pod {name} does not run: {halted}; see {look}")
        try:
            return NodeAnswer(node, name, document=self._execute(name, arguments))
        except CommandError as error:
            return NodeAnswer(node, name, error=str(error))

    def _execute(self, pod: str, arguments: Sequence[str]) -> dict[str, Any]:
        """The document that nvshare-ctl prints in the pod."""
        try:
            execution = kubernetes.stream.stream(
                self._api().connect_get_namespaced_pod_exec,
                pod,
                self._namespace,
                command=[_PROGRAM, *arguments],
                container=_CONTAINER,
                stdin=False,
                stdout=True,
                stderr=True,
                tty=False,
                _preload_content=False,
            )
            execution.run_forever(timeout=_ANSWER_SECONDS)
            if execution.is_open():
                execution.close()
                raise CommandError(f"nvshare-ctl in pod {pod} did not end within {_ANSWER_SECONDS:g} s")
            output, complaint = execution.read_stdout(), execution.read_stderr()
        except (ApiException, websocket.WebSocketException, OSError) as error:
            raise CommandError(f"cannot execute nvshare-ctl in pod {pod}: {_reason(error)}") from error
        try:
            document = json.loads(output)
        except ValueError:
            document = None
        if not isinstance(document, dict):
            raise CommandError(_last_line(complaint) or f"nvshare-ctl in pod {pod} said nothing")
        return document


def _check(files: str) -> None:
    """CommandError unless each of the files that there are, as $KUBECONFIG lists them, can be one; or there is none."""
    there = False
    for file in files.split(config.kube_config.ENV_KUBECONFIG_PATH_SEPARATOR):
        try:
            read = config.kube_config.KubeConfigMerger(file)  # type: ignore[no-untyped-call]
            there |= bool(read.paths)
        except _OF_ANOTHER_KIND as error:
            raise _no_kubeconfig(file) from error
    if not there:
        raise CommandError(f"no cluster to ask: {_missing(files)}; name another with --kubeconfig")


def _missing(files: str) -> str:
    """Why none of the files is there: one that can't be looked at may be."""
    for file in files.split(config.kube_config.ENV_KUBECONFIG_PATH_SEPARATOR):
        try:
            Path(file).expanduser().stat()
        except FileNotFoundError:
            continue
        except OSError as error:
            return f"{file} can't be read: {error.strerror}"
    return f"there is no file {files}"


def _no_kubeconfig(file: str) -> CommandError:
    return CommandError(f"no cluster to ask: {file} is no kubeconfig; name another with --kubeconfig")


def _of_plugin(logged: str) -> str:
    """Why an exec plugin failed. In a terminal it says that itself, and the client trips over having nothing to add."""
    return "see what it said" if "NoneType" in logged else " ".join(logged.removeprefix("exec: ").split())


def _at_once(ask: Callable[[Any], NodeAnswer], pods: Sequence[Any]) -> list[NodeAnswer]:
    """All answers, some of them at a time. Whoever ends the program meanwhile need not wait for the others."""
    waiting: queue.SimpleQueue[tuple[Any, Future[NodeAnswer]]] = queue.SimpleQueue()
    answers: list[Future[NodeAnswer]] = [Future() for _ in pods]
    for pod, answer in zip(pods, answers, strict=True):
        waiting.put((pod, answer))

    def work() -> None:
        while not waiting.empty():
            try:
                pod, answer = waiting.get_nowait()
            except queue.Empty:
                return
            try:
                answer.set_result(ask(pod))
            except BaseException as error:
                answer.set_exception(error)

    for _ in range(min(len(pods), _AT_ONCE)):
        threading.Thread(target=work, daemon=True).start()
    return [answer.result() for answer in answers]


def _present(pods: Sequence[Any]) -> list[Any]:
    """Without those that are being deleted and have a successor on their node."""
    staying = {pod.spec.node_name for pod in pods if pod.metadata.deletion_timestamp is None}
    return [pod for pod in pods if pod.metadata.deletion_timestamp is None or pod.spec.node_name not in staying]


def _not_running(pod: Any) -> str:
    """Why the scheduler's container does not run, in kubelet's word; empty: it does, or kubelet has not said yet."""
    for container in pod.status.container_statuses or ():
        if container.name == _CONTAINER and container.state is not None:
            halted = container.state.waiting or container.state.terminated
            return str(halted.reason or "") if halted else ""
    return ""


def _reason(error: Exception) -> str:
    """One line that says the most: the API server's own message where there is one."""
    text = f"{getattr(error, 'body', None) or ''}\n{getattr(error, 'reason', None) or error}"
    if message := _API_MESSAGE.search(text):
        return message[1]
    return _last_line(text) or type(error).__name__


def _last_line(text: str) -> str:
    """The last that says something: the frame around what typer complains of does not."""
    lines = [line.strip(" │") for line in text.splitlines() if any(map(str.isalnum, line))]
    return lines[-1] if lines else ""
