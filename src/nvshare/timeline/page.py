"""A timeline as one HTML file that needs no other. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from html import escape

from nvshare.timeline.chart import Bar, Chart, Row, Shape, tick_seconds

_WIDTH = 1000
_LEAST_LEFT, _MOST_LEFT = 130, 330
"""What rows' names may have of the width. Longer ones are cut, and shown whole where one points at them."""
_LETTER = 7.5
_GAP = 10
_ROW = 34
_BAR = 22
_THIN = 5
_AXIS = 26
_COLORS = ("#2a9d8f", "#e9803a", "#5b7fde", "#c2549d")
_STYLE = """
:root { color-scheme: light dark; --text: #1d2430; --dim: #67707e; --line: #d8dde5; --back: #fff; --row: #f4f6f9 }
@media (prefers-color-scheme: dark) {
  :root { --text: #e3e7ee; --dim: #98a2b3; --line: #353d4a; --back: #14181f; --row: #1c222b }
}
body { font: 15px/1.5 system-ui, sans-serif; color: var(--text); background: var(--back); max-width: 1040px;
  margin: 2.5rem auto; padding: 0 1.25rem }
h1 { font-size: 1.5rem; margin: 0 0 .5rem } h2 { font-size: 1.05rem; margin: 2rem 0 .25rem }
p.dim, .dim { color: var(--dim) } svg { width: 100%; height: auto; display: block }
svg text { font: 13px system-ui, sans-serif; fill: var(--text) } svg text.axis { fill: var(--dim); font-size: 12px }
svg .row { fill: var(--row) } svg .tick { stroke: var(--line) } svg rect:hover { opacity: .75 }
table { border-collapse: collapse; margin-top: .5rem } td, th { text-align: right; padding: .3rem 1.1rem .3rem 0 }
td:first-child, th:first-child, td:last-child, th:last-child { text-align: left } th { color: var(--dim);
  font-weight: 500 } td { font-variant-numeric: tabular-nums; border-top: 1px solid var(--line) }
svg .wait { opacity: .25 }
svg .name { font: 13px/22px system-ui, sans-serif; white-space: nowrap; overflow: hidden; text-overflow: ellipsis }
.right { color: #2a9d8f } .wrong { color: #d1495b; font-weight: 600 }
"""


@dataclass(frozen=True, slots=True)
class _Scale:
    """Where times are: from ``left`` on, up to ``length`` seconds."""

    left: float
    length: float

    def x(self, seconds: float) -> float:
        return self.left + (_WIDTH - self.left - 20) * seconds / max(self.length, 1e-9)


def html_page(
    title: str, text: str, note: str, length: float, charts: Iterable[Chart], tables: Sequence[str] = ()
) -> str:
    """The document: ``text`` and, less prominent, ``note``, then the charts on axes of ``length`` seconds.

    ``tables`` are HTML already.
    """
    shown = list(charts)
    longest = max((len(row.label) for chart in shown for row in chart.rows), default=0)
    scale = _Scale(min(max(longest * _LETTER + _GAP, _LEAST_LEFT), _MOST_LEFT), length)
    parts = [
        "<!doctype html>",
        '<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">',
        f"<title>nvshare: {escape(title.lower())}</title><style>{_STYLE}</style></head><body>",
        f"<h1>{escape(title)}</h1>",
        f"<p>{escape(text)}</p>",
        f'<p class="dim">{escape(note)}</p>',
        *(_chart(chart, scale) for chart in shown),
        *tables,
        "</body></html>",
    ]
    return "\n".join(parts) + "\n"


def _chart(chart: Chart, scale: _Scale) -> str:
    height = _ROW * len(chart.rows) + _AXIS
    lines = [
        f'<h2>{escape(chart.title)} <span class="dim">{escape(chart.detail)}</span></h2>',
        f'<svg viewBox="0 0 {_WIDTH} {height}" role="img" aria-label="{escape(chart.title)}">',
        *_axis(scale, height),
        *(line for number, row in enumerate(chart.rows) for line in _row(number, row, scale)),
        "</svg>",
    ]
    return "\n".join(lines)


def _axis(scale: _Scale, height: int) -> Iterator[str]:
    step = tick_seconds(scale.length, 12)
    number = 0
    while number * step <= scale.length:
        x = scale.x(number * step)
        yield f'<line class="tick" x1="{x:.1f}" y1="0" x2="{x:.1f}" y2="{height - _AXIS + 4}"/>'
        yield f'<text class="axis" x="{x:.1f}" y="{height - 6}" text-anchor="middle">{number * step:g} s</text>'
        number += 1


def _row(number: int, row: Row, scale: _Scale) -> Iterator[str]:
    top = number * _ROW + (_ROW - _BAR) / 2
    left, name = scale.left, escape(row.label)
    yield f'<rect class="row" x="{left}" y="{top}" width="{_WIDTH - left}" height="{_BAR}" rx="3" opacity=".6"/>'
    # SVG's own text can't be cut to a width.
    yield (
        f'<foreignObject x="0" y="{top}" width="{left - _GAP}" height="{_BAR}">'
        f'<div class="name" title="{name}">{name}</div></foreignObject>'
    )
    yield from (_bar(bar, top, _COLORS[row.color % len(_COLORS)], scale) for bar in row.bars)


def _bar(bar: Bar, top: float, color: str, scale: _Scale) -> str:
    left, right = scale.x(bar.begin), scale.x(bar.end)
    thin = bar.shape is Shape.THIN
    return (
        f'<rect class="{bar.shape.value}" x="{left:.2f}" y="{top + _BAR if thin else top}" '
        f'width="{max(right - left, 1):.2f}" height="{_THIN if thin else _BAR}" rx="3" '
        f'fill="{color}"><title>{escape(bar.text)}</title></rect>'
    )
