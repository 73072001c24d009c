"""The admin API's message about what happened of late."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from nvshare.admin import admin_pb2
from nvshare.scheduler.api.timeline import Person, Span, Timeline
from nvshare.scheduler.core.snapshot import DeviceSnapshot
from nvshare.scheduler.gpus.queries import Gpu


def timeline_message(
    timeline: Timeline, devices: Iterable[DeviceSnapshot], gpus: Mapping[str, Gpu], seconds: float, now: float
) -> admin_pb2.Timeline:
    """The last ``seconds`` before ``now``; ``gpus``: what NVML shows, by UUID."""
    begin = now - seconds
    spans: dict[int, list[Span]] = {}
    for span in timeline.spans(begin, now):
        spans.setdefault(span.client, []).append(span)
    return admin_pb2.Timeline(
        seconds=seconds,
        devices=[_device(device, gpus.get(device.device)) for device in devices],
        clients=[_client(person, spans[person.client], begin) for person in timeline.people(spans.keys())],
    )


def _device(device: DeviceSnapshot, gpu: Gpu | None) -> admin_pb2.TimelineDevice:
    return admin_pb2.TimelineDevice(
        uuid=device.device,
        name="" if gpu is None else gpu.product,
        index="" if gpu is None else gpu.index,
        total_bytes=device.total_bytes,
    )


def _client(person: Person, spans: Iterable[Span], begin: float) -> admin_pb2.TimelineClient:
    return admin_pb2.TimelineClient(
        id=person.client,
        pid=person.pid,
        command=person.command,
        device_uuid=person.device,
        member_of=person.container,
        spans=[
            admin_pb2.TimelineSpan(
                what=span.what.value, begin=max(0.0, span.begin - begin), end=span.end - begin, bytes=span.bytes
            )
            for span in sorted(spans, key=lambda each: each.begin)
        ],
    )
