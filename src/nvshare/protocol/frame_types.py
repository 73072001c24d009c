"""The numbers of the frames of protocol version 2."""

from __future__ import annotations

from enum import IntEnum

from nvshare.protocol.layout import lib


class FrameType(IntEnum):
    """What a frame says."""

    REGISTER = lib.NVS_REGISTER
    SCHED_ON = lib.NVS_SCHED_ON
    REQ_LOCK = lib.NVS_REQ_LOCK
    LOCK_OK = lib.NVS_LOCK_OK
    DROP_LOCK = lib.NVS_DROP_LOCK
    LOCK_RELEASED = lib.NVS_LOCK_RELEASED
    FOOTPRINT = lib.NVS_FOOTPRINT
    WAITERS = lib.NVS_WAITERS
    REFUSED = lib.NVS_REFUSED
    DRAIN_REPORT = lib.NVS_DRAIN_REPORT
    NOTICE = lib.NVS_NOTICE
    ASK_REASON = lib.NVS_ASK_REASON
    REASON = lib.NVS_REASON
    GROW = lib.NVS_GROW
    ALLOT = lib.NVS_ALLOT
    EVICT = lib.NVS_EVICT
    RESIDENT = lib.NVS_RESIDENT
    REFUSE_GROWTH = lib.NVS_REFUSE_GROWTH
    ARENA = lib.NVS_ARENA
    TERMS = lib.NVS_TERMS
    JOIN = lib.NVS_JOIN
    LEAVE = lib.NVS_LEAVE
    JOINED = lib.NVS_JOINED
    GANG = lib.NVS_GANG
    IDLE = lib.NVS_IDLE
    WATCH = lib.NVS_WATCH
    PROGRESS = lib.NVS_PROGRESS
    LIMIT = lib.NVS_LIMIT
    SHARE = lib.NVS_SHARE
    UNSHARE = lib.NVS_UNSHARE
    OPEN_SHARED = lib.NVS_OPEN_SHARED
    ASK_SHARED = lib.NVS_ASK_SHARED
    SHARED = lib.NVS_SHARED
    NOT_SHARED = lib.NVS_NOT_SHARED
    TEXT = lib.NVS_TEXT
    SLEEP = lib.NVS_SLEEP
    ASLEEP = lib.NVS_ASLEEP
    NOT_ASLEEP = lib.NVS_NOT_ASLEEP
    WAKE = lib.NVS_WAKE
    AWAKE = lib.NVS_AWAKE
    STORE = lib.NVS_STORE
    STORED = lib.NVS_STORED
    NOT_STORED = lib.NVS_NOT_STORED
    LOADED = lib.NVS_LOADED
    SUM = lib.NVS_SUM
    SUMMED = lib.NVS_SUMMED
    PACK = lib.NVS_PACK
    PACKED = lib.NVS_PACKED
    DEDUP = lib.NVS_DEDUP
    DEDUPED = lib.NVS_DEDUPED
