"""What the operator set outlives a scheduler."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import structlog

from nvshare.admin import admin_pb2
from nvshare.scheduler.core.events import Policy
from nvshare.scheduler.core.settings import Settings
from nvshare.scheduler.recovery.choices import Choices
from tests.scheduler.wire_client import OTHER_DEVICE, Scheduler

DEVICE = "GPU-6e767368-6172-6500-0000-000000000001"

Serve = Callable[..., Scheduler]


def shown(scheduler: Scheduler) -> list[tuple[str, float]]:
    """Policy and quantum of every device."""
    return [(device.policy, device.quantum_seconds) for device in scheduler.status().devices]


def test_set_survives_a_crash(serve: Serve) -> None:
    """For one device and for all, on devices that are seen later too; a clean start has nothing to say."""
    scheduler = serve("--quantum", "20")
    scheduler.client().register()
    scheduler.admin.SetPolicy(admin_pb2.SetPolicyRequest(policy="off"))
    scheduler.admin.SetPolicy(admin_pb2.SetPolicyRequest(policy="exclusive", device_uuid=DEVICE))
    scheduler.admin.SetQuantum(admin_pb2.SetQuantumRequest(seconds=7.5, device_uuid=DEVICE))
    scheduler.kill()
    scheduler = serve("--quantum", "20")
    scheduler.client().register()
    scheduler.client().register(device_uuid=OTHER_DEVICE)
    assert shown(scheduler) == [("exclusive", 7.5), ("off", 20.0)]
    scheduler.admin.SetQuantum(admin_pb2.SetQuantumRequest(seconds=3))
    scheduler.terminate()
    scheduler = serve("--quantum", "20")
    scheduler.client().register()
    assert shown(scheduler) == [("exclusive", 3.0)]


def test_a_new_option_is_a_later_word(serve: Serve) -> None:
    """Whoever starts the scheduler with another quantum means it; the policy that was set still counts."""
    scheduler = serve("--quantum", "20")
    scheduler.admin.SetQuantum(admin_pb2.SetQuantumRequest(seconds=7.5))
    scheduler.admin.SetPolicy(admin_pb2.SetPolicyRequest(policy="exclusive"))
    scheduler.kill()
    scheduler = serve("--quantum", "10")
    scheduler.client().register()
    assert shown(scheduler) == [("exclusive", 10.0)]
    scheduler.kill()
    scheduler = serve("--quantum", "20")
    scheduler.client().register()
    assert shown(scheduler) == [("exclusive", 20.0)], (
        "what the option took the place of does not come back with the former one"
    )


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{}",
        "[]",
        '{"options": 1}',
        "\0" * 100,
        json.dumps(
            {
                "options": {"policy": "auto", "quantum_seconds": 30.0},
                "policies": {"": "fair"},
                "quanta": {},
                "policies_before_off": {},
            }
        ),
        json.dumps(
            {
                "options": {"policy": "auto", "quantum_seconds": 30.0},
                "policies": {"": "off"},
                "quanta": {"": 1e-300},
                "policies_before_off": {},
            }
        ),
        *(
            json.dumps(
                {
                    "options": {"policy": "auto", "quantum_seconds": 30.0},
                    "policies": {"": "off"},
                    "quanta": {"": 3.0},
                    "policies_before_off": {},
                    "terms": terms,
                }
            )
            for terms in (1, {"c": 1}, {"c": {"colour": 1}}, {"c": {"weight": 0}}, {"c": {"priority": 7}})
        ),
    ],
)
def test_a_damaged_file_is_one_warning(tmp_path: Path, text: str) -> None:
    """And what the command line says."""
    path = tmp_path / "choices.json"
    path.write_text(text)
    lines = structlog.testing.CapturingLogger()
    choices = Choices(path, Settings(), structlog.wrap_logger(lines, processors=[]))
    assert choices.settings == Settings()
    assert choices.terms == {}
    assert [call.method_name for call in lines.calls] == ["warning"]


def test_what_a_newer_version_wrote(tmp_path: Path) -> None:
    """The warning says what to do, and what is not understood."""
    path = tmp_path / "choices.json"
    path.write_text(json.dumps({"options": {"policy": "auto"}, "policies": {}, "policies_before_off": {}}))
    with structlog.testing.capture_logs() as lines:
        Choices(path, Settings(), structlog.get_logger())
    assert [(line["event"], line["reason"]) for line in lines] == [
        (
            "what was set before is lost: set it again",
            "another version of nvshare wrote it, or it is damaged: 'quantum_seconds' is missing",
        )
    ]


def test_what_cannot_be_written_is_one_warning(tmp_path: Path) -> None:
    """A full disk is no reason to end."""
    lines = structlog.testing.CapturingLogger()
    choices = Choices(tmp_path / "no-folder" / "choices.json", Settings(), structlog.wrap_logger(lines, processors=[]))
    choices.policy_set(Policy.OFF, None)
    choices.save()
    assert choices.settings.policy is Policy.OFF
    assert [call.method_name for call in lines.calls] == ["warning"]
    assert choices.unwritten.endswith("choices.json can't be written: No such file or directory")
    (tmp_path / "no-folder").mkdir()
    choices.save()
    assert choices.unwritten == ""
