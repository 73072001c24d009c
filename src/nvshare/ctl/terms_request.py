"""What the scheduler is told where a term of a container is set."""

from __future__ import annotations

from nvshare.admin import admin_pb2
from nvshare.ctl.set_terms import meant


def request(command: str, text: str, container: str) -> admin_pb2.SetTermsRequest:
    """As ``nvshare-ctl set COMMAND TEXT CONTAINER`` means it; ValueError as ``set_terms.meant`` says."""
    field, value = meant(command, text)
    asked = admin_pb2.SetTermsRequest(container=container)
    if value is None:
        asked.taken_back.append(field)
    else:
        setattr(asked, field, value)
    return asked
