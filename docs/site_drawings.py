"""The drawings of the reference: how guarantees imply one another, and where the crash points of a micro-batch lie."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from html import escape
from itertools import pairwise
from typing import Final

from streamproof.harness.core.addresses import Point

_STYLE: Final = """
text { font: 13px sans-serif; fill: #1c2733; }
.small { font-size: 11px; fill: #51606e; }
.strong { font-weight: bold; }
.page { fill: #ffffff; }
.node { fill: #eef1fb; stroke: #3f51b5; }
.lane { stroke: #c4ccd4; }
.edge { fill: none; stroke: #51606e; stroke-width: 1.3; marker-end: url(#tip); }
.point { fill: #3f51b5; }
.number { fill: #ffffff; font-size: 11px; font-weight: bold; }
.during { stroke: #3f51b5; stroke-width: 4; stroke-opacity: 0.35; }
.again { fill: #fdecea; }
.kept { fill: #2e7d5b; }
"""
_TIP: Final = (
    '<marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
    '<path d="M0 0L8 4L0 8z" fill="#51606e"/></marker>'
)


def _svg(width: int, height: int, title: str, body: Iterator[str]) -> str:
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        f'role="img"><title>{escape(title)}</title><style>{_STYLE}</style><defs>{_TIP}</defs>'
        f'<rect class="page" width="{width}" height="{height}"/>'
    )
    return "\n".join((head, *body, "</svg>", ""))


def _text(x: float, y: float, said: str, cls: str = "", anchor: str = "start") -> str:
    return f'<text x="{x:g}" y="{y:g}" class="{cls}" text-anchor="{anchor}">{escape(said)}</text>'


# Guarantees

_ROW: Final = 78
_GAP: Final = 22
_BEND: Final = 34
"""As wide as an edge that passes a row on its way."""


def lattice_svg(weaker: Mapping[str, Sequence[str]]) -> str:
    """`weaker`: of each guarantee those that it implies. What neither implies nor is implied stands in a row below."""
    implied = {name for names in weaker.values() for name in names}
    related = [name for name in weaker if weaker[name] or name in implied]
    alone = [name for name in weaker if name not in related]
    height = {name: _height(name, weaker) for name in related}
    rows, edges = _rows(height, weaker)
    places = [*(_placed(row) for row in rows), _placed(alone)]
    width = int(max(max(x + _width(name) / 2 for name, x in row.items()) for row in places if row) * 2) + 40
    middle = width / 2

    def body() -> Iterator[str]:
        for path in edges:
            depths = range(len(rows) - 1 - height[path[0]], len(rows))
            points = [
                (middle + places[depth][name], 30 + depth * _ROW) for depth, name in zip(depths, path, strict=False)
            ]
            yield _edge(points)
        for depth, row in enumerate(places):
            for name, x in row.items():
                if name in weaker:
                    left, y = middle + x - _width(name) / 2, 16 + depth * _ROW + (20 if depth == len(rows) else 0)
                    yield f'<rect class="node" x="{left:g}" y="{y}" width="{_width(name):g}" height="28" rx="6"/>'
                    yield _text(middle + x, y + 18, name, anchor="middle")
        if alone:
            yield _text(middle, 24 + len(rows) * _ROW, "beside them:", "small", "middle")

    return _svg(width, 16 + (len(rows) + bool(alone)) * _ROW, "Which guarantee implies which", body())


def _height(name: str, weaker: Mapping[str, Sequence[str]]) -> int:
    return max((1 + _height(other, weaker) for other in weaker[name]), default=0)


def _rows(height: Mapping[str, int], weaker: Mapping[str, Sequence[str]]) -> tuple[list[list[str]], list[list[str]]]:
    """The names of each row, the strongest first, with a bend in each row that an edge passes; and the edges, as names
    from row to row."""
    above: dict[str, list[str]] = {}
    by_height: dict[int, list[str]] = {}
    for name in height:
        by_height.setdefault(height[name], []).append(name)
    edges = []
    for name in height:
        for other in weaker[name]:
            passed = [f"{name}>{other}@{row}" for row in range(height[name] - 1, height[other], -1)]
            for row, bend in zip(range(height[name] - 1, height[other], -1), passed, strict=True):
                by_height.setdefault(row, []).append(bend)
            edges.append([name, *passed, other])
            for stronger, passed_or_weaker in pairwise(edges[-1]):
                above.setdefault(passed_or_weaker, []).append(stronger)
    rows = [by_height[row] for row in sorted(by_height, reverse=True)]
    for upper, lower in pairwise(rows):
        at = _placed(upper)
        # Who has nobody above stands at the side; of those that would stand in one place, bends go outside.
        means = {name: _mean([at[one] for one in above.get(name, ())]) for name in lower}
        lower.sort(key=lambda name: (means[name], "gap" not in name, name))
    return rows, edges


def _mean(found: Sequence[float]) -> float:
    return sum(found) / len(found) if found else 1e6


def _placed(row: Sequence[str]) -> dict[str, float]:
    """From the middle."""
    total = sum(map(_width, row)) + _GAP * max(0, len(row) - 1)
    found, left = {}, -total / 2
    for name in row:
        found[name] = left + _width(name) / 2
        left += _width(name) + _GAP
    return found


def _width(name: str) -> float:
    return _BEND if ">" in name else 20 + 7.2 * len(name)


def _edge(points: Sequence[tuple[float, float]]) -> str:
    (x, y), *more = points
    steps = [f"M{x:g} {y + 14:g}"]
    for place, (x, y) in enumerate(more):
        steps.append(f"L{x:g} {y - 15:g}" if place == len(more) - 1 else f"L{x:g} {y - 14:g}L{x:g} {y + 14:g}")
    return f'<path class="edge" d="{"".join(steps)}"/>'


# A micro-batch

_LANES: Final[Mapping[str, Sequence[Point]]] = {
    "source": (Point.SOURCE_LATEST, Point.SOURCE_COMMIT, Point.SOURCE_PARTITIONS),
    "driver": (
        Point.OFFSET_LOG,
        Point.SOURCE_LOG,
        Point.ADD_BATCH,
        Point.JOB_COMMIT,
        Point.STREAM_COMMIT,
        Point.SINK_LOG,
        Point.COMMIT_LOG,
        Point.CLEANUP,
    ),
    "tasks": (Point.SOURCE_READ, Point.TASK_END, Point.STATE_COMMIT, Point.WRITER_COMMIT, Point.TASK_COMMIT),
    "recording sink": (Point.SINK_WRITE,),
}
_DURABLE: Final = (
    (Point.OFFSET_LOG, "offsets/N: what the batch takes"),
    (Point.STATE_COMMIT, "state N"),
    (Point.ADD_BATCH, "what the sink's own code has stored"),
    (Point.COMMIT_LOG, "commits/N: the batch is done"),
)
_LEFT: Final = 132
_STEP: Final = 50


def batch_svg(numbered: Sequence[Point]) -> str:
    """`numbered`: the points that a batch passes, in their order."""
    at = {point: _LEFT + 30 + place * _STEP for place, point in enumerate(numbered)}
    lanes = {point: place for place, points in enumerate(_LANES.values()) for point in points}
    width = _LEFT + 40 + len(numbered) * _STEP
    begun, done = at[Point.OFFSET_LOG], at[Point.COMMIT_LOG]
    below = 66 + len(_LANES) * 46

    def body() -> Iterator[str]:
        yield f'<rect class="again" x="{begun}" y="26" width="{done - begun}" height="{below - 30}"/>'
        yield _text(
            (begun + done) / 2, 18, "who dies here is given the same batch again, under its number", "small", "middle"
        )
        for place, name in enumerate(_LANES):
            y = 56 + place * 46
            yield f'<path class="lane" d="M{_LEFT} {y}H{width - 16}"/>'
            yield _text(12, y + 4, name, "strong")
        handed, y = at[Point.ADD_BATCH], 56 + lanes[Point.ADD_BATCH] * 46
        yield f'<path class="during" d="M{handed} {y}H{done - 22}"/>'
        for place, point in enumerate(numbered):
            x, y = at[point], 56 + lanes[point] * 46
            yield f'<circle class="point" cx="{x}" cy="{y}" r="11"><title>{escape(point)}</title></circle>'
            yield _text(x, y + 4, str(place + 1), "number", "middle")
        yield _text(12, below + 14, "durable", "strong")
        for place, (point, said) in enumerate(_DURABLE):
            x, y = at[point] + 11, below + place * 24
            yield f'<rect class="kept" x="{x}" y="{y + 8}" width="{width - 16 - x}" height="4"/>'
            side = (x - 6, "end") if point is Point.COMMIT_LOG else (x, "start")
            yield _text(side[0], y + (14 if side[1] == "end" else 4), said, "small", side[1])

    return _svg(width, below + len(_DURABLE) * 24 + 16, "The crash points of a micro-batch", body())
