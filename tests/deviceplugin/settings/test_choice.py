"""Which configuration a node gets, by its label and by what files there are."""

from __future__ import annotations

from pathlib import Path

import pytest

from nvshare.deviceplugin.settings.choice import Choice, Chosen
from nvshare.deviceplugin.settings.choosing import choose
from nvshare.deviceplugin.settings.sources import ConfigurationError


@pytest.fixture
def choice(tmp_path: Path) -> Choice:
    """A folder with three configurations, and a node without a label."""
    folder = tmp_path / "configurations"
    folder.mkdir()
    (folder / "default.yaml").write_text("virtual_devices: 10")
    (folder / "few.yaml").write_text("virtual_devices: 2")
    (folder / "bare").write_text("virtual_devices: 7")
    return Choice(folder, "default", tmp_path / "node" / "config")


def label(choice: Choice, value: str) -> None:
    choice.node_config.parent.mkdir(exist_ok=True)
    choice.node_config.write_text(value)


@pytest.mark.parametrize(
    ("value", "name", "count"),
    [(None, "default", 10), ("", "default", 10), ("few", "few", 2), ("few\n", "few", 2), ("bare", "bare", 7)],
)
def test_by_the_label(choice: Choice, value: str | None, name: str, count: int) -> None:
    """The label names a file, with or without its ending; without a label it is the default."""
    if value is not None:
        label(choice, value)
    settings = choose(choice, {}, {})
    assert (settings.name, settings.configuration.virtual_devices, settings.problem) == (name, count, None)
    assert settings.choice == choice
    assert settings.seen == choice.look()


def test_flags_win_over_each(choice: Choice) -> None:
    """As with one file: what the command line says counts for every node."""
    label(choice, "few")
    assert choose(choice, {"virtual_devices": "5"}, {}).configuration.virtual_devices == 5


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ("none-such", "has no configuration 'none-such'; here are: bare, broken, default, few"),
        ("../outside", "has no configuration '../outside'"),
        ("x" * 300, "has no configuration 'xxx"),
        ("broken", "broken.yaml: virtual_devices: 0 is wrong; allowed: an integer from 1 to 1000"),
    ],
)
def test_a_label_that_leads_nowhere(choice: Choice, value: str, reason: str) -> None:
    """The default counts, and it is said what the label says, in one line, and what is wrong with that."""
    (choice.folder.parent / "outside.yaml").write_text("virtual_devices: 1")
    (choice.folder / "broken.yaml").write_text("virtual_devices: 0\nwhat: 1\n")
    label(choice, value)
    settings = choose(choice, {}, {})
    assert (settings.name, settings.configuration.virtual_devices) == ("default", 10)
    assert str(settings.problem).startswith(f"the node's label nvshare.com/device-plugin.config says {value!r}: ")
    assert reason in str(settings.problem)
    assert "\n" not in str(settings.problem)


def test_a_default_that_leads_nowhere(choice: Choice) -> None:
    """Then there is nothing to serve with."""
    (choice.folder / "default.yaml").unlink()
    with pytest.raises(ConfigurationError, match="has no configuration 'default'; here are: bare, few"):
        choose(choice, {}, {})
    with pytest.raises(ConfigurationError, match=r"here are: none \(No such file or directory\)"):
        choose(Choice(choice.folder / "x", "default", choice.node_config), {}, {})


def test_what_is_seen(choice: Choice) -> None:
    """Another label, another content, a file that goes or comes; not what happens to others."""
    seen = [choice.look()]
    assert seen == [Chosen("default", b"virtual_devices: 10")]
    (choice.folder / "few.yaml").write_text("virtual_devices: 3")
    assert choice.look() == seen[0]
    for change in (
        lambda: (choice.folder / "default.yaml").write_text("virtual_devices: 9"),
        lambda: label(choice, "few"),
        lambda: (choice.folder / "few.yaml").unlink(),
        lambda: label(choice, "../few"),
        choice.node_config.unlink,
    ):
        change()
        assert choice.look() not in seen[-1:]
        seen.append(choice.look())
    assert seen[-1] == Chosen("default", b"virtual_devices: 9")


def test_a_config_map_that_is_replaced(tmp_path: Path) -> None:
    """kubelet links the names to files in a folder ``..data``, which is itself a link that it replaces."""
    volume = tmp_path / "volume"
    for version, count in (("..1", 1), ("..2", 2)):
        (volume / version).mkdir(parents=True)
        (volume / version / "default.yaml").write_text(f"virtual_devices: {count}")
    (volume / "..data").symlink_to("..1")
    (volume / "default.yaml").symlink_to("..data/default.yaml")
    choice = Choice(volume, "default", tmp_path / "config")
    assert choice.look() == Chosen("default", b"virtual_devices: 1")
    (volume / "..data_tmp").symlink_to("..2")
    (volume / "..data_tmp").rename(volume / "..data")
    assert choice.look() == Chosen("default", b"virtual_devices: 2")
    assert choice.names() == "default"
