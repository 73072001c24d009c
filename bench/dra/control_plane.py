"""A control plane of one's own: the real etcd, API server and scheduler, in a folder and on ports of their own.

The programs are found by PATH. There is no controller manager: nodes are what the benchmark says of them, and nothing
but the benchmark makes objects.
"""

from __future__ import annotations

import asyncio
import re
import secrets
import shutil
import socket
import ssl
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import httpx2
import psutil  # type: ignore[import-untyped]

from nvshare.kubernetes.account import Account

HOST: Final = "127.0.0.1"
PROGRAMS: Final = ("etcd", "kube-apiserver", "kube-scheduler")
_ADVERTISED: Final = "192.0.2.1"
"""An address of the range for documentation: nobody connects to it, but the API server takes no loopback address."""
_START_SECONDS = 90.0
_STOP_SECONDS = 20.0
_NEEDLESS_ADMISSION: Final = "ServiceAccount,TaintNodesByCondition"
"""They need controllers: one makes each namespace's account, one takes the taint off a node that has become ready."""
_SCHEDULER: Final = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
clientConnection: {{kubeconfig: {kubeconfig}, qps: {rate}, burst: {burst}}}
leaderElection: {{leaderElect: false}}
"""
_KUBECONFIG: Final = """
apiVersion: v1
kind: Config
current-context: it
clusters: [{{name: it, cluster: {{server: "https://{host}:{port}", certificate-authority: "{authority}"}}}}]
contexts: [{{name: it, context: {{cluster: it, user: it}}}}]
users: [{{name: it, user: {{token: "{token}"}}}}]
"""


class ControlPlane:
    """Starts with its processes; ``stop`` ends them. Its folder is the caller's."""

    def __init__(self, folder: Path) -> None:
        """Raises FileNotFoundError where PATH has not all of the programs."""
        for program in PROGRAMS:
            if shutil.which(program) is None:
                raise FileNotFoundError(f"{program} is not in PATH")
        self._folder = folder
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        etcd, peer, self._port, self._scheduler_port = _free_ports(4)
        self._etcd_url, self._peer_url = f"http://{HOST}:{etcd}", f"http://{HOST}:{peer}"
        self._admin, self._scheduler = secrets.token_hex(16), secrets.token_hex(16)

    @property
    def account(self) -> Account:
        """Who may do everything."""
        return Account(HOST, self._port, self._folder)

    async def start(self) -> None:
        """Until the API answers; TimeoutError."""
        tokens, key = self._folder / "tokens.csv", self._folder / "accounts.key"
        tokens.write_text(
            f'{self._admin},admin,admin,"system:masters"\n{self._scheduler},system:kube-scheduler,scheduler,""\n'
        )
        (self._folder / "token").write_text(self._admin)
        making = await asyncio.create_subprocess_exec(
            "openssl", "genrsa", "-out", key, "2048", stderr=subprocess.DEVNULL
        )
        if await making.wait():
            raise RuntimeError("openssl makes no key")
        self._run(
            "etcd",
            f"--data-dir={self._folder / 'etcd'}",
            f"--listen-client-urls={self._etcd_url}",
            f"--advertise-client-urls={self._etcd_url}",
            f"--listen-peer-urls={self._peer_url}",
            "--unsafe-no-fsync",
            "--log-level=error",
        )
        self._run(
            "kube-apiserver",
            f"--etcd-servers={self._etcd_url}",
            f"--secure-port={self._port}",
            f"--bind-address={HOST}",
            f"--advertise-address={_ADVERTISED}",
            "--service-cluster-ip-range=192.0.2.128/25",
            f"--cert-dir={self._folder}",
            f"--token-auth-file={tokens}",
            "--authorization-mode=RBAC",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={key}",
            f"--service-account-signing-key-file={key}",
            f"--disable-admission-plugins={_NEEDLESS_ADMISSION}",
        )
        await self._until_ready(self._port)
        shutil.copy(self._folder / "apiserver.crt", self._folder / "ca.crt")

    async def start_scheduler(self, rate: int) -> None:
        """With a client of so many questions a second; TimeoutError."""
        kubeconfig, settings = self._folder / "kubeconfig", self._folder / "scheduler.yaml"
        authority = self._folder / "apiserver.crt"
        kubeconfig.write_text(
            _KUBECONFIG.format(host=HOST, port=self._port, authority=authority, token=self._scheduler)
        )
        settings.write_text(_SCHEDULER.format(kubeconfig=kubeconfig, rate=rate, burst=2 * rate))
        self._run(
            "kube-scheduler",
            f"--config={settings}",
            f"--secure-port={self._scheduler_port}",
            f"--bind-address={HOST}",
            "--authentication-skip-lookup",
            "--authorization-always-allow-paths=/readyz,/metrics",
        )
        await self._until_ready(self._scheduler_port)

    async def api_metrics(self) -> Metrics:
        """What the API server counts."""
        return await self._metrics(self._port)

    async def scheduler_metrics(self) -> Metrics:
        """What the scheduler counts."""
        return await self._metrics(self._scheduler_port)

    def processor_seconds(self, program: str) -> float:
        """What a program has used of processors so far."""
        times = psutil.Process(self._processes[program].pid).cpu_times()
        return float(times.user + times.system)

    def stop(self) -> None:
        """Ends all processes, the last started first."""
        for process in reversed(self._processes.values()):
            process.terminate()
            try:
                process.wait(_STOP_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def _run(self, program: str, *options: str) -> None:
        with (self._folder / f"{program}.log").open("wb") as log:
            self._processes[program] = subprocess.Popen([program, *options], stdout=log, stderr=log)

    async def _until_ready(self, port: int) -> None:
        deadline = time.monotonic() + _START_SECONDS
        while True:
            for program, process in self._processes.items():
                if process.poll() is not None:
                    raise RuntimeError(f"{program} has ended: {_end_of(self._folder / f'{program}.log')}")
            try:
                if (await self._get(port, "/readyz")).is_success:
                    return
            except httpx2.HTTPError as error:
                if time.monotonic() > deadline:
                    raise TimeoutError(f"not ready within {_START_SECONDS:g} s") from error
            if time.monotonic() > deadline:
                raise TimeoutError(f"not ready within {_START_SECONDS:g} s")
            await asyncio.sleep(0.2)

    async def _metrics(self, port: int) -> Metrics:
        answer = await self._get(port, "/metrics")
        answer.raise_for_status()
        return Metrics(answer.text)

    async def _get(self, port: int, path: str) -> httpx2.Response:
        async with httpx2.AsyncClient(
            base_url=f"https://{HOST}:{port}", verify=_trusting(), trust_env=False, headers=self.headers
        ) as client:
            return await client.get(path)

    @property
    def headers(self) -> dict[str, str]:
        """Of who may do everything."""
        return {"Authorization": f"Bearer {self._admin}"}


class Metrics:
    """What a program showed Prometheus at one moment."""

    def __init__(self, text: str) -> None:
        self._text = text

    def sum(self, name: str, labels: Mapping[str, str]) -> float:
        """Of all lines of a metric with labels that match these patterns as a whole."""
        found = re.findall(rf"^{re.escape(name)}\{{(.*)\}} (\S+)$", self._text, re.MULTILINE)
        return sum(float(value) for said, value in found if _matches(said, labels))


def _matches(said: str, labels: Mapping[str, str]) -> bool:
    told = dict(re.findall(r'(\w+)="([^"]*)"', said))
    return all(re.fullmatch(pattern, told.get(label, "")) for label, pattern in labels.items())


def _trusting() -> ssl.SSLContext:
    """The scheduler's certificate is its own and in memory; both are on this machine's loopback."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def _free_ports(count: int) -> list[int]:
    sockets = [socket.create_server((HOST, 0)) for _ in range(count)]
    ports: list[Any] = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


def _end_of(log: Path) -> str:
    return log.read_text(errors="replace")[-500:]
