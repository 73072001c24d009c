"""A timeline as plain data, as ``-o json`` prints it. Times are seconds after its beginning."""

from __future__ import annotations

from google.protobuf.json_format import ParseDict

from nvshare.admin import admin_pb2
from nvshare.container_names import given
from nvshare.ctl.showing.schema_version import SCHEMA_VERSION
from nvshare.ctl.showing.status_document import Document
from nvshare.version import version


def from_timeline(seen: admin_pb2.Timeline) -> Document:
    """Everything that a scheduler tells."""
    return {
        "schema_version": SCHEMA_VERSION,
        "version": version(),
        "seconds": seen.seconds,
        "devices": [
            {
                "uuid": device.uuid,
                "name": device.name,
                "index": device.index,
                "total_bytes": device.total_bytes,
            }
            for device in seen.devices
        ],
        "clients": [
            {
                "id": client.id,
                "pid": client.pid,
                "name": given(client.member_of) or None,
                "member_of": client.member_of or None,
                "command": client.command,
                "device_uuid": client.device_uuid,
                "spans": [
                    {
                        "what": span.what,
                        "begin": round(span.begin, 6),
                        "end": round(span.end, 6),
                        "bytes": span.bytes,
                    }
                    for span in client.spans
                ],
            }
            for client in seen.clients
        ],
    }


def to_timeline(document: Document) -> admin_pb2.Timeline:
    """The timeline that a document shows. What another version says and this one does not know is left out."""
    return ParseDict(document, admin_pb2.Timeline(), ignore_unknown_fields=True)
