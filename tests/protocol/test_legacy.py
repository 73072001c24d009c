"""Version 1 messages: bytes and back, at the offsets of nvshare v0.1.1."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nvshare.protocol import legacy
from nvshare.protocol.legacy import LegacyType, Message


@given(st.binary(min_size=legacy.MESSAGE_BYTES, max_size=legacy.MESSAGE_BYTES), st.integers(0, 10))
def test_any_bytes_are_a_message_or_an_error(data: bytes, kind: int) -> None:
    """No bytes make the decoder fail in another way than by saying that they are no message."""
    candidate = bytes([kind]) + data[1:]
    if kind in LegacyType.__members__.values():
        assert legacy.decode(candidate).type == kind
    else:
        with pytest.raises(legacy.LegacyError, match=f"type {kind} is unknown"):
            legacy.decode(candidate)


def test_layout() -> None:
    """Type, pod name, pod namespace, id and data lie packed in 537 bytes."""
    data = legacy.encode(Message(LegacyType.REGISTER, "pod", "space", 0x0102030405060708, "30"))
    assert len(data) == legacy.MESSAGE_BYTES == 537
    assert data[0] == 1
    assert data[1:255] == b"pod".ljust(254, b"\0")
    assert data[255:509] == b"space".ljust(254, b"\0")
    assert data[509:517] == bytes(range(8, 0, -1))
    assert data[517:] == b"30".ljust(20, b"\0")


@pytest.mark.parametrize("kind", LegacyType)
def test_round_trip(kind: LegacyType) -> None:
    """Every type, with everything that fits, is the same after it was bytes."""
    message = Message(kind, "p" * 253, "n" * 253, 2**64 - 1, "d" * 19)
    assert legacy.decode(legacy.encode(message)) == message


def test_text_that_does_not_fit() -> None:
    """Nothing is cut silently."""
    with pytest.raises(ValueError, match="longer than the 19 bytes"):
        legacy.encode(Message(LegacyType.SET_TQ, data="1" * 20))


def test_text_cannot_command_a_terminal() -> None:
    """What is not printable is replaced; what follows the first NUL is nothing."""
    data = legacy.encode(Message(LegacyType.REGISTER, "a\x1bb"))
    assert legacy.decode(data[:10] + b"rest" + data[14:]).pod_name == "a�b"


@pytest.mark.parametrize("size", [0, 536, 538])
def test_wrong_size(size: int) -> None:
    """A message has one size."""
    with pytest.raises(legacy.LegacyError, match=f"537 bytes, not {size}"):
        legacy.decode(bytes(size))
