"""A timeline as one HTML file that needs no other. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from html import escape

from nvshare.timeline.chart import Bar, Chart, Row, Shape, tick_seconds

_WIDTH = 1000
"""Of a row's bars, in units that are stretched to what room there is."""
_END = 20
"""What stays free at the end, for the axis' last number."""
_ROW = 34
_BAR = 22
_THIN = 5
_COLORS = ("#2a9d8f", "#e9803a", "#5b7fde", "#c2549d")
_STYLE = """
:root { color-scheme: light dark; --text: #1d2430; --dim: #67707e; --line: #d8dde5; --back: #fff; --row: #f4f6f9 }
@media (prefers-color-scheme: dark) {
  :root { --text: #e3e7ee; --dim: #98a2b3; --line: #353d4a; --back: #14181f; --row: #1c222b }
}
body { font: 15px/1.5 system-ui, sans-serif; color: var(--text); background: var(--back); max-width: 1040px;
  margin: 2.5rem auto; padding: 0 1.25rem }
h1 { font-size: 1.5rem; margin: 0 0 .5rem } h2 { font-size: 1.05rem; margin: 2rem 0 .25rem }
p.dim, .dim { color: var(--dim); overflow-wrap: anywhere } .scroll { overflow-x: auto }
.chart { display: grid; grid-template-columns: fit-content(20rem) minmax(0, 1fr); column-gap: .75rem;
  align-items: center; font-size: 13px }
.name { min-width: 7rem; white-space: nowrap; overflow: hidden; text-overflow: ellipsis }
svg { width: 100%; height: 34px; display: block } svg .row { fill: var(--row) } svg rect:hover { opacity: .75 }
svg .tick { stroke: var(--line); vector-effect: non-scaling-stroke } svg .wait { opacity: .25 }
svg .sleep { opacity: .1 }
.axis { grid-column: 2; position: relative; height: 1.6rem; color: var(--dim); font-size: 12px }
.axis span { position: absolute; transform: translateX(-50%); white-space: nowrap }
table { border-collapse: collapse; margin-top: .5rem } td, th { text-align: right; padding: .3rem 1.1rem .3rem 0 }
td:first-child, th:first-child, td:last-child, th:last-child { text-align: left } th { color: var(--dim);
  font-weight: 500 } td { font-variant-numeric: tabular-nums; border-top: 1px solid var(--line) }
.right { color: #2a9d8f } .wrong { color: #d1495b; font-weight: 600 }
@media (max-width: 700px) {
  body { margin: 1.25rem auto } .chart { grid-template-columns: minmax(0, 1fr) } .axis { grid-column: 1 }
  .name { margin-top: .4rem } .axis span:nth-child(even) { display: none }
  td, th { padding-right: .8rem; white-space: nowrap }
}
"""


def html_page(
    title: str, text: str, note: str, length: float, charts: Iterable[Chart], tables: Sequence[str] = ()
) -> str:
    """The document: ``text`` and, less prominent, ``note``, then the charts on axes of ``length`` seconds.

    ``tables`` are HTML already.
    """
    parts = [
        "<!doctype html>",
        '<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">',
        f"<title>nvshare: {escape(title.lower())}</title><style>{_STYLE}</style></head><body>",
        f"<h1>{escape(title)}</h1>",
        f"<p>{escape(text)}</p>",
        f'<p class="dim">{escape(note)}</p>',
        *(_chart(chart, length) for chart in charts),
        *(f'<div class="scroll">{table}</div>' for table in tables),
        "</body></html>",
    ]
    return "\n".join(parts) + "\n"


def _chart(chart: Chart, length: float) -> str:
    ticks = list(_ticks(length))
    lines = [
        f'<h2>{escape(chart.title)} <span class="dim">{escape(chart.detail)}</span></h2>',
        '<div class="chart">',
        *(line for row in chart.rows for line in _row(row, ticks, length)),
        '<div class="axis">',
        *(f'<span style="left:{100 * _x(tick, length) / _WIDTH:.2f}%">{tick:g} s</span>' for tick in ticks),
        "</div></div>",
    ]
    return "\n".join(lines)


def _x(seconds: float, length: float) -> float:
    return (_WIDTH - _END) * seconds / max(length, 1e-9)


def _ticks(length: float) -> Iterator[float]:
    step = tick_seconds(length, 12)
    number = 0
    while number * step <= length:
        yield number * step
        number += 1


def _row(row: Row, ticks: Sequence[float], length: float) -> Iterator[str]:
    name = escape(row.label)
    top = (_ROW - _BAR) / 2
    # The name is text of the page, since a drawing that is made narrower would make its letters smaller.
    yield f'<div class="name" title="{name}">{name}</div>'
    yield f'<svg viewBox="0 0 {_WIDTH} {_ROW}" preserveAspectRatio="none" role="img" aria-label="{name}">'
    yield f'<rect class="row" x="0" y="{top}" width="{_WIDTH}" height="{_BAR}" opacity=".6"/>'
    for tick in ticks:
        x = _x(tick, length)
        yield f'<line class="tick" x1="{x:.1f}" y1="0" x2="{x:.1f}" y2="{_ROW}"/>'
    yield from (_bar(bar, top, _COLORS[row.color % len(_COLORS)], length) for bar in row.bars)
    yield "</svg>"


def _bar(bar: Bar, top: float, color: str, length: float) -> str:
    left, right = _x(bar.begin, length), _x(bar.end, length)
    thin = bar.shape is Shape.THIN
    return (
        f'<rect class="{bar.shape.value}" x="{left:.2f}" y="{top + _BAR if thin else top}" '
        f'width="{max(right - left, 1):.2f}" height="{_THIN if thin else _BAR}" '
        f'fill="{color}"><title>{escape(bar.text)}</title></rect>'
    )
