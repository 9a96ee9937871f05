"""A line chart as SVG text: axes, up to four curves, a legend. The standard library is enough to write it."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

WIDTH, HEIGHT = 760, 490
LEFT, RIGHT, TOP, BOTTOM = 80, 730, 90, 420
"""The plot's edges in the picture."""
STYLES = (("#1f5fa8", "none"), ("#c4501b", "7 4"), ("#2c7a4b", "2 4"), ("#7a3f98", "9 3 2 3"))
"""Colour and dashes of the first, second, ... curve: told apart without colours too."""

Points = Sequence[tuple[float, float]]


def line_chart(
    title: str, x_label: str, y_label: str, ticks: tuple[Sequence[float], Sequence[float]], curves: dict[str, Points]
) -> str:
    """The chart. `ticks`: values marked on the x and y axis; the first and last of them are the axis' ends."""
    xs, ys = ticks

    def across(x: float) -> float:
        return LEFT + (x - xs[0]) / (xs[-1] - xs[0]) * (RIGHT - LEFT)

    def up(y: float) -> float:
        return BOTTOM - (y - ys[0]) / (ys[-1] - ys[0]) * (BOTTOM - TOP)

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
        left, row = LEFT + 330 * (number % 2), 54 + 20 * (number // 2)
        parts.append(_line(left, row - 4, left + 40, row - 4, colour, f'stroke-width="2" stroke-dasharray="{dashes}"'))
        parts.append(_text(left + 50, row, name, "start"))
    return "\n".join([*parts, "</svg>\n"])


def _line(x1: float, y1: float, x2: float, y2: float, colour: str, more: str = "") -> str:
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{colour}" {more}/>'


def _text(x: float, y: float, text: str, anchor: str, more: str = "") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" {more}>{escape(text)}</text>'
