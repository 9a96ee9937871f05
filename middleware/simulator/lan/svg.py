"""A line chart as SVG text: axes, up to six curves, a legend. The standard library is enough to write it."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from math import log

WIDTH, HEIGHT = 760, 490
LEFT, RIGHT, TOP, BOTTOM = 80, 730, 90, 420
"""The plot's edges in the picture."""
STYLES = (
    ("#1f5fa8", "none"), ("#c4501b", "7 4"), ("#2c7a4b", "2 4"), ("#7a3f98", "9 3 2 3"), ("#8a6d00", "1 3"),
    ("#555555", "12 4"),
)  # fmt: skip
"""Colour and dashes of the first, second, ... curve: told apart without colours too."""

Points = Sequence[tuple[float, float]]


def line_chart(
    title: str,
    x_label: str,
    y_label: str,
    ticks: tuple[Sequence[float], Sequence[float]],
    curves: dict[str, Points],
    is_logarithmic: bool = False,
) -> str:
    """The chart. `ticks`: values marked on the x and y axis; the first and last of them are the axis' ends."""
    xs, ys = ticks
    columns, step = (2, 330) if len(curves) <= 4 else (3, 220)

    def across(x: float) -> float:
        return LEFT + _share(x, xs, is_logarithmic) * (RIGHT - LEFT)

    def up(y: float) -> float:
        return BOTTOM - _share(y, ys, is_logarithmic) * (BOTTOM - TOP)

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}"'
        ' font-family="sans-serif" font-size="13" fill="#222">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
        _text(WIDTH / 2, 30, title, "middle", 'font-size="16"'),
        _text((LEFT + RIGHT) / 2, HEIGHT - 18, x_label, "middle"),
        _text(0, 0, y_label, "middle", f'transform="translate(22 {(TOP + BOTTOM) / 2}) rotate(-90)"'),
    ]
    for x in xs:
        parts.append(_line(across(x), BOTTOM, across(x), BOTTOM + 5, "#222"))
        parts.append(_text(across(x), BOTTOM + 21, f"{x:g}", "middle"))
    for y in ys:
        parts.append(_line(LEFT, up(y), RIGHT, up(y), "#ddd"))
        parts.append(_text(LEFT - 9, up(y) + 4, f"{y:g}", "end"))
    parts += [_line(LEFT, TOP, LEFT, BOTTOM, "#222"), _line(LEFT, BOTTOM, RIGHT, BOTTOM, "#222")]
    for number, (name, points) in enumerate(curves.items()):
        colour, dashes = STYLES[number]
        path = " ".join(f"{across(x):.1f},{up(y):.1f}" for x, y in points)
        parts.append(
            f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2" stroke-dasharray="{dashes}"/>'
        )
        parts += [f'<circle cx="{across(x):.1f}" cy="{up(y):.1f}" r="3.5" fill="{colour}"/>' for x, y in points]
        left, row = LEFT + step * (number % columns), 54 + 20 * (number // columns)
        parts.append(_line(left, row - 4, left + 40, row - 4, colour, f'stroke-width="2" stroke-dasharray="{dashes}"'))
        parts.append(_text(left + 50, row, name, "start"))
    return "\n".join([*parts, "</svg>\n"])


def _share(value: float, ticks: Sequence[float], is_logarithmic: bool) -> float:
    """How far from the first tick to the last one."""
    first, last = ticks[0], ticks[-1]
    if is_logarithmic:
        return log(value / first) / log(last / first)
    return (value - first) / (last - first)


def _line(x1: float, y1: float, x2: float, y2: float, colour: str, more: str = "") -> str:
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{colour}" {more}/>'


def _text(x: float, y: float, text: str, anchor: str, more: str = "") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" {more}>{escape(text)}</text>'
