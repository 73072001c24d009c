"""What the scheduler is told where a term of a container is set."""

from __future__ import annotations

from typing import Any

from nvshare.admin import admin_pb2


def request(field: str, value: Any, container: str) -> admin_pb2.SetTermsRequest:
    """``field`` and ``value`` as ``options.terms.meant`` gives them."""
    # What is no text on the wire is the name of no container: the scheduler says so.
    asked = admin_pb2.SetTermsRequest(container=container.encode(errors="backslashreplace").decode())
    if value is None:
        asked.taken_back.append(field)
    else:
        setattr(asked, field, value)
    return asked
