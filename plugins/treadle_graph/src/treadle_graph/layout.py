"""Places for boxes and lines: a layered drawing after Sugiyama, Tagawa and Toda (1981).

Steps stand in layers by depth. A line that passes layers bends in each, and a label is a box of its own in a layer
between two others, so that no box is drawn over anything else. Within a layer the order is found by barycenters, and
the places by projecting the wished-for ones on those that keep the order and the distances (isotonic regression).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from itertools import pairwise

__all__ = ["Layout", "Line", "Place", "place"]

MOST_ITEMS = 100_000
"""Most boxes and pieces of lines together: ten seconds' work, and far more than a person looks at."""

SWEEPS = 12
ROUNDS = 12

NODE_GAP = 24.0
LINE_GAP = 14.0
PART_GAP = 36.0
LAYER_GAP = 44.0
LABEL_GAP = 22.0


@dataclass(frozen=True, slots=True)
class Place:
    """A box: its centre and its size. ``across`` runs along a layer, ``along`` from layer to layer.

    :param room: the length of its layer.
    """

    across: float
    along: float
    breadth: float
    length: float
    room: float

    def shifted(self, across: float) -> Place:
        """The same, further across."""
        return replace(self, across=self.across + across) if across else self

    @property
    def start(self) -> float:
        """Where lines come in."""
        return self.along - self.length / 2

    @property
    def end(self) -> float:
        """Where lines go out."""
        return self.along + self.length / 2

    @property
    def layer_start(self) -> float:
        """Where its layer begins."""
        return self.along - self.room / 2

    @property
    def layer_end(self) -> float:
        """Where its layer ends: between here and the start of the next there are only lines."""
        return self.along + self.room / 2


@dataclass(frozen=True, slots=True)
class Line:
    """What an edge passes between its ends, in order; ``label`` is the place of its text, which it also passes."""

    source: int
    target: int
    bends: tuple[Place, ...]
    label: Place | None


@dataclass(frozen=True, slots=True)
class Layout:
    """Everything has its place; the drawing begins at 0 in both directions."""

    boxes: tuple[Place, ...]
    lines: tuple[Line, ...]
    breadth: float
    length: float


@dataclass(slots=True)
class _Items:
    """Boxes, labels and bends, by number; the first are the boxes."""

    most: int
    used: int = 0
    layer: list[int] = field(default_factory=list)
    breadth: list[float] = field(default_factory=list)
    length: list[float] = field(default_factory=list)
    is_bend: list[bool] = field(default_factory=list)
    before: list[list[int]] = field(default_factory=list)
    after: list[list[int]] = field(default_factory=list)

    def add(self, layer: int, breadth: float, length: float, *, is_bend: bool) -> int:
        self.layer.append(layer)
        self.breadth.append(breadth)
        self.length.append(length)
        self.is_bend.append(is_bend)
        self.before.append([])
        self.after.append([])
        self._count()
        return len(self.layer) - 1

    def join(self, one: int, other: int) -> None:
        self.after[one].append(other)
        self.before[other].append(one)
        self._count()

    def _count(self) -> None:
        self.used += 1
        if self.used > self.most:
            raise _too_large()


def _too_large() -> ValueError:
    return ValueError(
        f"the graph is too large to be drawn (over {MOST_ITEMS:,} boxes and pieces of lines); "
        "use the format dot, and a program for large graphs"
    )


def place(
    depths: Sequence[int],
    sizes: Sequence[tuple[float, float]],
    edges: Sequence[tuple[int, int]],
    labels: Sequence[tuple[float, float] | None],
) -> Layout:
    """Lay out a graph. Parts that no edge joins stand beside each other.

    :param depths: the layer of each box; every edge leads to a later layer.
    :param sizes: breadth (along the layer) and length of each box.
    :param labels: the size of each edge's label; None where it has none.
    :raises ValueError: the graph is too large.
    """
    if len(depths) + len(edges) > MOST_ITEMS:  # without bends and labels
        raise _too_large()
    boxes: dict[int, Place] = {}
    lines: dict[int, Line] = {}
    breadth = length = 0.0
    free = MOST_ITEMS
    for own_boxes, own_edges in _parts(len(depths), edges):
        number = {box: index for index, box in enumerate(own_boxes)}
        part, used = _place_part(
            [depths[box] for box in own_boxes],
            [sizes[box] for box in own_boxes],
            [(number[edges[edge][0]], number[edges[edge][1]]) for edge in own_edges],
            [labels[edge] for edge in own_edges],
            free,
        )
        free -= used
        shift = breadth + PART_GAP if boxes else 0.0
        boxes |= {box: each.shifted(shift) for box, each in zip(own_boxes, part.boxes, strict=True)}
        for edge, line in zip(own_edges, part.lines, strict=True):
            bends = tuple(bend.shifted(shift) for bend in line.bends)
            lines[edge] = Line(*edges[edge], bends, None if line.label is None else bends[0])
        breadth, length = shift + part.breadth, max(length, part.length)
    return Layout(
        boxes=tuple(boxes[box] for box in range(len(depths))),
        lines=tuple(lines[edge] for edge in range(len(edges))),
        breadth=breadth,
        length=length,
    )


def _parts(count: int, edges: Sequence[tuple[int, int]]) -> Iterator[tuple[list[int], list[int]]]:
    """Boxes that are joined, with the edges that join them, by the first box."""
    beside: list[list[int]] = [[] for _ in range(count)]
    for one, other in edges:
        beside[one].append(other)
        beside[other].append(one)
    part_of = [-1] * count
    parts: list[tuple[list[int], list[int]]] = []
    for first in range(count):
        if part_of[first] >= 0:
            continue
        part_of[first] = len(parts)
        found = [first]
        for box in found:  # the list grows while it is read
            for each in beside[box]:
                if part_of[each] < 0:
                    part_of[each] = len(parts)
                    found.append(each)
        parts.append((sorted(found), []))
    for index, (one, _) in enumerate(edges):
        parts[part_of[one]][1].append(index)
    yield from parts


def _place_part(
    depths: Sequence[int],
    sizes: Sequence[tuple[float, float]],
    edges: Sequence[tuple[int, int]],
    labels: Sequence[tuple[float, float] | None],
    most: int,
) -> tuple[Layout, int]:
    """Lay out what is joined; also how many items that took."""
    layer_of, count = _spread(depths, edges, labels)
    items = _Items(most)
    for depth, (breadth, length) in zip(depths, sizes, strict=True):
        items.add(layer_of[depth], breadth, length, is_bend=False)
    chains: list[list[int]] = []
    for (source, target), label in zip(edges, labels, strict=True):
        chain: list[int] = []
        previous = source
        for layer in range(items.layer[source] + 1, items.layer[target]):
            # A label stands in the layer after its source's, which is there for labels.
            if label is not None and not chain:
                passed = items.add(layer, *label, is_bend=False)
            else:
                passed = items.add(layer, 0.0, 0.0, is_bend=True)
            items.join(previous, passed)
            chain.append(passed)
            previous = passed
        items.join(previous, target)
        chains.append(chain)
    layers = _ordered(items, count)
    places = _lay_along(items, layers, _placed(items, layers), set(layer_of))
    lines: list[Line] = []
    for (source, target), label, chain in zip(edges, labels, chains, strict=True):
        bends = tuple(places[each] for each in chain)
        lines.append(Line(source, target, bends, None if label is None else bends[0]))
    layout = Layout(
        boxes=tuple(places[: len(depths)]),
        lines=tuple(lines),
        breadth=max((each.across + each.breadth / 2 for each in places), default=0.0),
        length=max((each.end for each in places), default=0.0),
    )
    return layout, items.used


def _spread(
    depths: Sequence[int], edges: Sequence[tuple[int, int]], labels: Sequence[tuple[float, float] | None]
) -> tuple[list[int], int]:
    """The layer of each depth, with a further one after each depth from which labelled edges start; how many."""
    labelled = {depths[source] for (source, _), label in zip(edges, labels, strict=True) if label is not None}
    layer_of: list[int] = []
    layer = 0
    for depth in range(max(depths, default=-1) + 1):
        layer_of.append(layer)
        layer += 2 if depth in labelled else 1
    return layer_of, layer


def _ordered(items: _Items, count: int) -> list[list[int]]:
    """The items of each layer, in an order with few crossings."""
    layers: list[list[int]] = [[] for _ in range(count)]
    for item in _depth_first(items):
        layers[items.layer[item]].append(item)
    best = [list(layer) for layer in layers]
    fewest = _crossings(items, layers)
    rank = [0.0] * len(items.layer)
    for sweep in range(SWEEPS):
        if not fewest:
            break
        down = sweep % 2 == 0
        for layer in layers if down else reversed(layers):
            beside = items.before if down else items.after
            for position, item in enumerate(layer):
                found = beside[item]
                rank[item] = sum(rank[each] for each in found) / len(found) if found else float(position)
            layer.sort(key=rank.__getitem__)
            for position, item in enumerate(layer):
                rank[item] = float(position)
        crossings = _crossings(items, layers)
        if crossings < fewest:
            fewest, best = crossings, [list(layer) for layer in layers]
    return best


def _depth_first(items: _Items) -> list[int]:
    """Every item once, each branch in one piece."""
    seen = [False] * len(items.layer)
    found: list[int] = []
    for root in range(len(items.layer)):
        if items.before[root]:
            continue
        pending = [root]
        while pending:
            item = pending.pop()
            if seen[item]:
                continue
            seen[item] = True
            found.append(item)
            pending.extend(reversed(items.after[item]))
    return found


def _crossings(items: _Items, layers: Sequence[Sequence[int]]) -> int:
    """How many pairs of lines cross."""
    total = 0
    position = [0] * len(items.layer)
    for layer in layers:
        for index, item in enumerate(layer):
            position[item] = index
    for upper, lower in pairwise(layers):
        tree = [0] * (len(lower) + 1)
        passed = 0
        for item in upper:
            ends = sorted(position[each] for each in items.after[item])
            for end in ends:  # lines so far that end further on
                total += passed - _sum_up_to(tree, end)
            for end in ends:
                _count(tree, end)
            passed += len(ends)
    return total


def _sum_up_to(tree: Sequence[int], position: int) -> int:
    index, total = position + 1, 0
    while index > 0:
        total += tree[index]
        index -= index & -index
    return total


def _count(tree: list[int], position: int) -> None:
    index = position + 1
    while index < len(tree):
        tree[index] += 1
        index += index & -index


def _placed(items: _Items, layers: Sequence[Sequence[int]]) -> list[float]:
    """Where each item stands in its layer, near to what it is joined to."""
    across = [0.0] * len(items.layer)
    distances = [_distances(items, layer) for layer in layers]
    for layer, distance in zip(layers, distances, strict=True):
        shift = distance[-1] / 2 if distance else 0.0
        for item, wanted in zip(layer, distance, strict=True):
            across[item] = wanted - shift
    for turn in range(ROUNDS * 2):
        order = range(len(layers)) if turn % 2 == 0 else range(len(layers) - 1, -1, -1)
        last = turn >= ROUNDS * 2 - 2
        for index in order:
            wishes: list[float] = []
            weights: list[float] = []
            for item in layers[index]:
                beside = items.before[item] if turn % 2 == 0 else items.after[item]
                if last:
                    beside = items.before[item] + items.after[item]
                wishes.append(sum(across[each] for each in beside) / len(beside) if beside else across[item])
                # Long lines are best straight; what is joined to nothing on this side gives way.
                weights.append(0.1 if not beside else 4.0 if items.is_bend[item] else 1.0)
            for item, found in zip(layers[index], _project(wishes, weights, distances[index]), strict=True):
                across[item] = found
    least = min((across[item] - items.breadth[item] / 2 for item in range(len(across))), default=0.0)
    return [each - least for each in across]


def _distances(items: _Items, layer: Sequence[int]) -> list[float]:
    """The least distance of each item's centre from that of the layer's first."""
    found: list[float] = []
    for index, item in enumerate(layer):
        if not index:
            found.append(0.0)
            continue
        before = layer[index - 1]
        gap = LINE_GAP if items.is_bend[item] or items.is_bend[before] else NODE_GAP
        found.append(found[-1] + (items.breadth[before] + items.breadth[item]) / 2 + gap)
    return found


def _project(wishes: Sequence[float], weights: Sequence[float], distances: Sequence[float]) -> list[float]:
    """The places nearest to the wishes (least squares) that keep order and distances: pool adjacent violators."""
    blocks: list[tuple[float, float, int]] = []  # mean, weight, how many
    for wish, weight, distance in zip(wishes, weights, distances, strict=True):
        mean, total, count = wish - distance, weight, 1
        while blocks and blocks[-1][0] > mean:
            other, other_total, other_count = blocks.pop()
            mean = (mean * total + other * other_total) / (total + other_total)
            total += other_total
            count += other_count
        blocks.append((mean, total, count))
    means = [mean for mean, _, count in blocks for _ in range(count)]
    return [mean + distance for mean, distance in zip(means, distances, strict=True)]


def _lay_along(
    items: _Items, layers: Sequence[Sequence[int]], across: Sequence[float], box_layers: AbstractSet[int]
) -> list[Place]:
    """Stack the layers."""
    middles: list[float] = []
    lengths = [max((items.length[item] for item in layer), default=0.0) for layer in layers]
    end = 0.0
    for index, length in enumerate(lengths):
        if index:
            between = sum(len(items.after[item]) for item in layers[index - 1])
            gap = LAYER_GAP if {index - 1, index} <= box_layers else LABEL_GAP
            end += gap * (1 + min(1.5, between / 40))  # many lines side by side are easier told apart if less steep
        middles.append(end + length / 2)
        end += length
    return [
        Place(
            across[item],
            middles[items.layer[item]],
            items.breadth[item],
            items.length[item],
            lengths[items.layer[item]],
        )
        for item in range(len(items.layer))
    ]
