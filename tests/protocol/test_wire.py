"""Version 2 frames: bytes and back, and what is no frame."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Callable
from dataclasses import fields
from importlib.resources import files
from pathlib import Path
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nvshare.protocol import legacy, wire

U32 = st.integers(0, 2**32 - 1)
U64 = st.integers(0, 2**64 - 1)
KEY = st.binary(min_size=wire.KEY_BYTES, max_size=wire.KEY_BYTES)


def text(most: int) -> st.SearchStrategy[str]:
    """Printable text that fits a field of this size."""
    printable = st.characters(codec="utf-8").filter(str.isprintable)
    return st.text(printable, max_size=most).filter(lambda value: len(value.encode()) < most)


FRAMES = st.one_of(
    st.builds(
        wire.Register,
        device_uuid=st.binary(min_size=16, max_size=16),
        total_bytes=U64,
        state=st.sampled_from(wire.State),
        backend=st.sampled_from(wire.Backend),
        pid=U32,
        epoch=U64,
        grant=U64,
        footprint_bytes=U64,
        command=text(wire.TEXT_BYTES),
        name_hint=text(wire.NAME_BYTES),
        swaps=st.booleans(),
        level=st.integers(0, 255),
    ),
    st.builds(wire.SchedOn, U64, U64, st.integers(0, 255)),
    st.just(wire.ReqLock()),
    st.builds(wire.LockOk, U64),
    st.builds(wire.DropLock, U64),
    st.builds(wire.LockReleased, U64),
    st.builds(wire.Footprint, U64),
    st.builds(wire.Waiters, U32, U32),
    st.builds(wire.Refused, text(wire.TEXT_BYTES)),
    st.builds(wire.DrainReport, U64, st.sampled_from(wire.Drain)),
    st.builds(wire.Notice, text(wire.TEXT_BYTES)),
    st.just(wire.AskReason()),
    st.builds(wire.Reason, text(wire.TEXT_BYTES)),
    st.builds(wire.Text, text(wire.TEXT_BYTES)),
    st.builds(wire.Grow, U32, U64, U64),
    st.builds(wire.Allot, U64, U64, U64, U64, U32),
    st.builds(wire.Evict, U64, U64),
    st.builds(wire.Resident, *[U64] * len(fields(wire.Resident))),
    st.builds(wire.RefuseGrowth, U32, text(wire.TEXT_BYTES)),
    st.builds(wire.Arena, U64),
    st.builds(
        wire.Terms,
        weight_thousandths=U32,
        priority=st.sampled_from(wire.Priority),
        memory_limit_bytes=U64,
        memory_request_bytes=U64,
        when_full=st.sampled_from(wire.WhenFull),
        sleep=st.sampled_from(wire.SleepWhen),
        compute_limit_thousandths=U32,
        container=text(wire.CONTAINER_BYTES),
    ),
    st.builds(wire.Join, U32, KEY, st.sampled_from(wire.Tie), U32, st.booleans()),
    st.builds(wire.Leave, KEY, st.sampled_from(wire.Tie)),
    st.builds(wire.Joined, U32),
    st.builds(wire.Gang, U32, U32, U64),
    st.just(wire.Idle()),
    st.builds(wire.Watch, U32, U32),
    st.builds(wire.Progress, U64, U64, U64, U64),
    st.builds(wire.Limit, U64, U64),
    st.builds(wire.Share, KEY),
    st.builds(wire.Unshare, KEY),
    st.builds(wire.OpenShared, U32, KEY, U32),
    st.builds(wire.AskShared, U32, KEY, U32),
    st.builds(wire.Shared, U32, U32, U32, U64, U64),
    st.builds(wire.NotShared, U32, text(wire.TEXT_BYTES)),
    st.builds(wire.Sleep, U32),
    st.builds(wire.Asleep, U32),
    st.builds(wire.NotAsleep, U32, text(wire.TEXT_BYTES), st.booleans()),
    st.just(wire.Wake()),
    st.builds(wire.Awake, st.booleans()),
    st.just(wire.Store()),
    st.just(wire.Stored()),
    st.builds(wire.NotStored, text(wire.TEXT_BYTES)),
    st.builds(wire.Loaded, st.booleans()),
    st.just(wire.Sum()),
    st.builds(wire.Summed, U32, text(wire.SHARING_TEXT_BYTES)),
    st.just(wire.Pack()),
    st.builds(wire.Packed, text(wire.SHARING_TEXT_BYTES)),
    st.just(wire.Dedup()),
    st.builds(wire.Deduped, U64, U64, U64, text(wire.SHARING_TEXT_BYTES)),
)


@given(FRAMES)
def test_round_trip(frame: wire.Frame) -> None:
    """Every frame is the same after it was bytes, and begins with magic and version."""
    data = wire.encode(frame)
    assert len(data) == wire.FRAME_BYTES
    assert data[:2] == bytes([wire.MAGIC, wire.VERSION])
    assert wire.decode(data) == frame
    assert wire.decode(bytearray(data)) == frame


def test_every_frame_is_in_the_table() -> None:
    """Each kind has a number, and each number a kind."""
    assert set(get_args(wire.Frame)) == wire._TYPES.keys()
    assert sorted(number for number, _ in wire._TYPES.values()) == sorted(wire.FrameType)


@given(st.binary(min_size=wire.FRAME_BYTES, max_size=wire.FRAME_BYTES), st.integers(0, 60))
def test_any_bytes_are_a_frame_or_an_error(data: bytes, kind: int) -> None:
    """No bytes make the decoder fail in another way than by saying that they are no frame."""
    for candidate in (data, bytes([wire.MAGIC, wire.VERSION, kind]) + data[3:]):
        with contextlib.suppress(wire.WireError):
            wire.decode(candidate)


def test_versions_are_told_apart_by_the_first_byte() -> None:
    """No version 1 message begins with the magic of version 2."""
    assert wire.MAGIC not in legacy.FIRST_BYTES


@pytest.mark.parametrize("size", [0, 239, 241])
def test_wrong_size(size: int) -> None:
    """A frame has one size."""
    with pytest.raises(wire.WireError, match=f"240 bytes, not {size}"):
        wire.decode(bytes(size))


def test_other_version() -> None:
    """Another version is an error of its own, which knows the version."""
    data = bytearray(wire.encode(wire.ReqLock()))
    data[1] = 9
    with pytest.raises(wire.VersionError, match="version 9 is not supported, only 2 is") as caught:
        wire.decode(data)
    assert caught.value.version == 9


def test_long_text_is_cut_between_characters() -> None:
    """A text that does not fit loses its end, never half a character, and keeps its terminating NUL."""
    frame = wire.decode(wire.encode(wire.Refused("é" * 100)))
    assert frame == wire.Refused("é" * ((wire.TEXT_BYTES - 1) // 2))


def test_text_cannot_command_a_terminal() -> None:
    """What is not printable, and what is no UTF-8, is replaced."""
    data = wire.encode(wire.Refused("clear \x1b[2J now\n"))
    assert wire.decode(data) == wire.Refused("clear �[2J now�")
    assert wire.decode(data.replace(b"now", b"n\xffw")) == wire.Refused("clear �[2J n�w�")


def test_text_without_an_end() -> None:
    """A field without a NUL is a text of its full length."""
    data = wire.encode(wire.Refused("x" * 200)).replace(b"x\0", b"xx", 1)
    assert wire.decode(data) == wire.Refused("x" * wire.TEXT_BYTES)


def test_uuid_of_wrong_length() -> None:
    """A device UUID is not padded or cut."""
    with pytest.raises(ValueError, match="16 bytes, not 4"):
        wire.encode(wire.Register(b"GPU0", 1))


def test_layout_is_the_compilers(tmp_path: Path, tool: Callable[[str], str]) -> None:
    """What the C compiler makes of the header's REGISTER is what Python reads."""
    source = tmp_path / "frame.c"
    source.write_text("""
        #include <stdio.h>
        #include "wire.h"
        int main(void)
        {
            struct nvs_frame frame = {
                .magic = NVS_WIRE_MAGIC, .version = NVS_WIRE_VERSION, .type = NVS_REGISTER, .state = NVS_STATE_HOLDING,
                .backend = NVS_BACKEND_NATIVE, .pid = 1, .epoch = 3, .grant = 4, .footprint_bytes = 5, .total_bytes = 6,
                .device_uuid = {7, 8}, .text = "text", .name_hint = "hint",
            };
            return fwrite(&frame, sizeof frame, 1, stdout) != 1;
        }
    """)
    header_folder = str(files("nvshare.protocol"))
    subprocess.run([tool("gcc"), "-I", header_folder, "-o", tmp_path / "frame", source], check=True)
    data = subprocess.run([tmp_path / "frame"], check=True, capture_output=True).stdout
    assert wire.decode(data) == wire.Register(
        b"\7\10" + bytes(14), 6, wire.State.HOLDING, wire.Backend.NATIVE, 1, 3, 4, 5, "text", "hint"
    )
