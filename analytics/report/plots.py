"""Plots as inline SVG: columns and lines over a day, histograms on a logarithmic axis, bars with names.

No script, no style of their own: colours come from page.css, so they follow the page, also in the dark. Whoever cannot
see them has the same numbers in the tables; each mark says its number when pointed at.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from html import escape

from roamcast.analytics.report.words import duration, shown

WIDTH, HEIGHT = 460, 190
LEFT, RIGHT, TOP, BOTTOM = 50, 20, 12, 26
BAR, STEP = 14, 24
"""Height of a bar with a name, and from one to the next."""
NAME_MAX = 18

TICKS = (
    *(10**i for i in range(8)), *(60_000_000 * each for each in (1, 10, 60, 600, 1_440, 14_400, 144_000)),
)  # fmt: skip
"""us; steps of a logarithmic axis of time: 1 us to 10 s, 1 min, 10 min, 1 h, 10 h, 1 d, 10 d, 100 d."""

Number = float | None
Words = Callable[[float], str]


def hourly(values: Sequence[float], words: Words, what: str) -> str:
    """24 columns. words: how a value is written; what: what is counted, for the title of a mark."""
    top = _nice(max(values))
    width = (WIDTH - LEFT - RIGHT) / len(values)
    marks = []
    for hour, value in enumerate(values):
        if value:
            height = max(1.5, (HEIGHT - TOP - BOTTOM) * value / top)
            title = _title(f"{_hour(hour)}: {words(value)} {what}")
            marks.append(
                f'<rect class="bar" x="{LEFT + hour * width + 1:.1f}" y="{HEIGHT - BOTTOM - height:.1f}" '
                f'width="{width - 2:.1f}" height="{height:.1f}" rx="1.5">{title}</rect>'
            )
    ticks = [(share * top, words(share * top)) for share in (0, 0.5, 1) if share != 0.5 or top % 2 == 0 or top < 1]
    grid = "".join(_rule(_height(value / top), text) for value, text in ticks)
    return _svg(HEIGHT, grid + "".join(marks) + _hours())


def lines(series: Sequence[tuple[str, str, Sequence[Number]]], words: Words) -> str:
    """Lines over 24 hours on a logarithmic axis. series: (name, class, value of each hour)."""
    ticks = _ticks([value for _, _, values in series for value in values if value is not None])

    def y(value: float) -> float:
        return _height(_share(value, ticks))

    grid = "".join(_rule(y(tick), _unit(tick)) for tick in ticks)
    return _svg(HEIGHT, grid + "".join(_line(*each, y, words) for each in series) + _hours())


def _line(name: str, style: str, values: Sequence[Number], y: Callable[[float], float], words: Words) -> str:
    points = [
        None if value is None else (LEFT + (hour + 0.5) * (WIDTH - LEFT - RIGHT) / len(values), y(value))
        for hour, value in enumerate(values)
    ]
    parts, run = [], []
    for point in [*points, None]:
        if point is not None:
            run.append(f"{point[0]:.1f},{point[1]:.1f}")
        elif run:
            parts.append(f'<polyline class="{style}" points="{" ".join(run)}"/>')
            run = []
    for hour, (point, value) in enumerate(zip(points, values, strict=True)):
        if point is not None and value is not None:
            title = _title(f"{_hour(hour)}: {name} {words(value)}")
            parts.append(f'<circle class="{style}" cx="{point[0]:.1f}" cy="{point[1]:.1f}" r="2.5">{title}</circle>')
    return "".join(parts)


def histogram(bars: Sequence[Sequence[int]], words: Words, what: str) -> str:
    """Counts over a logarithmic axis of us. bars: [from, to, count]."""
    ticks = _ticks([edge for begin, end, _ in bars for edge in (begin, end)])
    top = _nice(max(count for _, _, count in bars))

    def x(us: float) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * _share(us, ticks)

    marks = []
    for begin, end, count in bars:
        height = max(1.5, (HEIGHT - TOP - BOTTOM) * count / top)
        title = _title(f"{duration(begin)} to {duration(end)}: {words(count)} {what}")
        marks.append(
            f'<rect class="bar" x="{x(begin) + 0.5:.1f}" y="{HEIGHT - BOTTOM - height:.1f}" '
            f'width="{max(1.0, x(end) - x(begin) - 1):.1f}" height="{height:.1f}" rx="1.5">{title}</rect>'
        )
    grid = "".join(_rule(_height(share), words(share * top)) for share in (0, 1))
    axis = "".join(_tick(x(tick), _unit(tick)) for tick in ticks[:: math.ceil(len(ticks) / 7)])
    return _svg(HEIGHT, grid + "".join(marks) + axis)


def named(rows: Sequence[tuple[str, float, str]], mark: tuple[float, str] | None = None) -> str:
    """A bar for each (name, value, value in words); mark: a line across all at a value, and what it is."""
    top = max([value for _, value, _ in rows] + [mark[0] if mark else 0]) or 1
    left, right = 130, 136
    room = WIDTH - left - right
    parts = []
    for i, (name, value, text) in enumerate(rows):
        y = TOP + i * STEP
        width = max(1.5, room * value / top)
        parts.append(
            f'<text class="name" x="{left - 8}" y="{y + 11}" text-anchor="end" direction="ltr">'
            f"{escape(shown(name, NAME_MAX))}</text>"
            f'<rect class="bar" x="{left}" y="{y}" width="{width:.1f}" height="{BAR}" rx="2">'
            f"{_title(f'{shown(name, 64)}: {text}')}</rect>"
            f'<text x="{WIDTH - 2}" y="{y + 11}" text-anchor="end">{escape(text)}</text>'
        )
    height = TOP + len(rows) * STEP + (16 if mark else 0)
    if mark:
        x = left + room * mark[0] / top
        parts.append(
            f'<line class="mark" x1="{x:.1f}" x2="{x:.1f}" y1="{TOP - 6}" y2="{height - 18}"/>'
            f'<text class="note" x="{x:.1f}" y="{height - 5}" text-anchor="middle">{escape(mark[1])}</text>'
        )
    return _svg(height, "".join(parts))


# ---- parts ----


def _svg(height: int, inside: str) -> str:
    return f'<svg viewBox="0 0 {WIDTH} {height}" role="img" xmlns="http://www.w3.org/2000/svg">{inside}</svg>'


def _title(text: str) -> str:
    return f"<title>{escape(text)}</title>"


def _height(share: float) -> float:
    return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * share


def _rule(y: float, text: str) -> str:
    return (
        f'<line class="rule" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>'
        f'<text x="{LEFT - 7}" y="{y + 4:.1f}" text-anchor="end">{escape(text)}</text>'
    )


def _tick(x: float, text: str) -> str:
    y = HEIGHT - BOTTOM
    return (
        f'<line class="rule" x1="{x:.1f}" x2="{x:.1f}" y1="{y}" y2="{y + 4}"/>'
        f'<text x="{x:.1f}" y="{y + 17}" text-anchor="middle">{escape(text)}</text>'
    )


def _hours() -> str:
    room = WIDTH - LEFT - RIGHT
    return "".join(
        _tick(LEFT + room * hour / 24, f"{hour:02}:00" if hour < 24 else "24:00") for hour in range(0, 25, 6)
    )


def _hour(hour: int) -> str:
    return f"{hour:02}:00 to {hour + 1:02}:00"


def _nice(most: float) -> float:
    """The next 1, 2 or 5 times a power of ten."""
    if most <= 1:
        return 1
    power = 10.0 ** math.floor(math.log10(most))
    return next(step * power for step in (1, 2, 5, 10) if step * power >= most)


def _ticks(values: Sequence[float]) -> list[int]:
    """The ticks that have all values between them; two at least."""
    low = max([i for i, tick in enumerate(TICKS) if tick <= min(values)], default=0)
    high = min([i for i, tick in enumerate(TICKS) if tick >= max(values)], default=len(TICKS) - 1)
    low = min(low, len(TICKS) - 2)
    return list(TICKS[low : max(high, low + 1) + 1])


def _share(value: float, ticks: Sequence[int]) -> float:
    """Where a value is between the first and the last tick, 0 to 1."""
    low, high = math.log10(ticks[0]), math.log10(ticks[-1])
    return min(1.0, max(0.0, (math.log10(max(value, 1)) - low) / (high - low)))


def _unit(us: int) -> str:
    for unit, name in (
        (86_400_000_000, "d"),
        (3_600_000_000, "h"),
        (60_000_000, "min"),
        (1_000_000, "s"),
        (1_000, "ms"),
    ):
        if us >= unit:
            return f"{us // unit} {name}"
    return f"{us} µs"
