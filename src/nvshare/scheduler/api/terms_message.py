"""From messages of the admin API to terms. InvalidCommandError says what is allowed."""

from __future__ import annotations

from dataclasses import fields

from nvshare.admin import admin_pb2
from nvshare.scheduler.commands import InvalidCommandError
from nvshare.scheduler.core.terms import Priority, SleepWhen, WhenFull
from nvshare.scheduler.some_terms import SomeTerms

_TERMS = {field.name for field in fields(SomeTerms)}


def terms_of(request: admin_pb2.SetTermsRequest | admin_pb2.AnnotatedTerms | admin_pb2.ClaimedDevice) -> SomeTerms:
    """Those that a message says."""
    values = {field.name: value for field, value in request.ListFields() if field.name in _TERMS}
    if "priority" in values:
        values["priority"] = _priority(values["priority"])
    if "when_full" in values:
        values["when_full"] = _when_full(values["when_full"])
    if "sleep" in values:
        values["sleep"] = _sleep(values["sleep"])
    terms = SomeTerms(**values)
    try:
        terms.check()
    except ValueError as error:
        raise InvalidCommandError(str(error)) from None
    return terms


def taken_back(request: admin_pb2.SetTermsRequest) -> frozenset[str]:
    """The names of the terms that are taken back."""
    if unknown := [name for name in request.taken_back if name not in _TERMS]:
        raise InvalidCommandError(f"{unknown[0]!r} is none of the terms; {', '.join(sorted(_TERMS))} are")
    return frozenset(request.taken_back)


def _priority(text: str) -> Priority:
    try:
        return Priority[text.upper()]
    except KeyError:
        allowed = ", ".join(priority.name.lower() for priority in Priority)
        raise InvalidCommandError(f"priority {text!r} is not allowed; {allowed} are") from None


def _when_full(text: str) -> WhenFull:
    try:
        return WhenFull(text)
    except ValueError:
        raise InvalidCommandError(f"{text!r} is not allowed where memory is full; {', '.join(WhenFull)} are") from None


def _sleep(text: str) -> SleepWhen:
    try:
        return SleepWhen(text)
    except ValueError:
        raise InvalidCommandError(f"sleep {text!r} is not allowed; {', '.join(SleepWhen)} are") from None
