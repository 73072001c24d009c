"""Makes the plain manifests of ``deploy/`` and ``deploy/simulated/`` from the chart: ``make manifests``.

Each template of the chart that renders to something with these few values is a file of the same name there.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

DEPLOY = Path(__file__).resolve().parents[1]
CHART = DEPLOY / "helm" / "nvshare"
BUILT = DEPLOY.parent / "build" / "tools" / "helm"
KUBERNETES = "1.36.0"
"""What ``.Capabilities`` says of a cluster when there is none."""
NAMESPACE = "nvshare-system"
HEADER = "# Made by `make manifests` from {chart}: in the repository, change that.\n"
VALUES: Mapping[Path, tuple[str, ...]] = {
    DEPLOY: ("namespace.create=true",),
    DEPLOY / "simulated": ("namespace.create=true", "simulated.enabled=true"),
}
_HELMS_OWN = re.compile(r"^ +(?:app[.]kubernetes[.]io/managed-by|helm[.]sh/chart): .*\n", re.MULTILINE)
"""Labels that are true only of what helm installs."""
_DOCUMENT = re.compile(r"^---\n# Source: nvshare/templates/(\S+)\n", re.MULTILINE)


def find_helm() -> str | None:
    """The helm that ``make helm`` built, else one of the system."""
    return str(BUILT) if BUILT.exists() else shutil.which("helm")


def render(
    helm: str, *arguments: str, chart: Path = CHART, release: str = "nvshare"
) -> subprocess.CompletedProcess[str]:
    """What ``helm template`` says with these arguments. Without the hooks, which only helm itself runs."""
    place = ["--namespace", NAMESPACE, "--kube-version", KUBERNETES, "--no-hooks"]
    command = [helm, "template", release, str(chart), *place, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)


def manifests(helm: str) -> dict[Path, str]:
    """The text of every file that is made."""
    files: dict[Path, str] = {}
    for folder, values in VALUES.items():
        done = render(helm, "--skip-tests", *(word for value in values for word in ("--set", value)))
        done.check_returncode()
        chart = "../" * len(folder.relative_to(DEPLOY).parts) + "helm/nvshare"
        _, *parts = _DOCUMENT.split(_HELMS_OWN.sub("", done.stdout))
        for name, text in zip(parts[::2], parts[1::2], strict=True):
            path = folder / name
            before = f"{files[path]}---\n" if path in files else HEADER.format(chart=chart)
            files[path] = f"{before}{text.strip()}\n"
    return files


def stale(helm: str) -> Iterator[Path]:
    """The files that are not what they would be made of now, or would not be made at all."""
    made = manifests(helm)
    yield from (path for path, text in made.items() if not path.is_file() or path.read_text() != text)
    yield from (path for folder in VALUES for path in folder.glob("*.yaml") if path not in made)


def main() -> None:
    """Writes what is stale."""
    helm = find_helm()
    if helm is None:
        sys.exit("render.py: no helm; `make helm` builds one")
    made = manifests(helm)
    for path in stale(helm):
        if path in made:
            path.write_text(made[path])
        else:
            path.unlink()
        print(path, file=sys.stderr)


if __name__ == "__main__":
    main()
