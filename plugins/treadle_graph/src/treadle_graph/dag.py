"""A directed acyclic graph of numbers: order, depth and paths. Nothing here recurses."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

__all__ = ["Dag"]


@dataclass(frozen=True, slots=True)
class Dag:
    """Nodes are numbered from 0. Both lists are sorted by number.

    :param parents: for each node, those it waits for.
    :param children: for each node, those that wait for it.
    """

    parents: tuple[tuple[int, ...], ...]
    children: tuple[tuple[int, ...], ...]

    @classmethod
    def of(cls, parents: Sequence[Sequence[int]]) -> Dag:
        """The graph in which each node has these parents.

        :raises ValueError: nodes wait for each other.
        """
        children: list[list[int]] = [[] for _ in parents]
        own = tuple(tuple(sorted(set(each))) for each in parents)
        for node, waits_for in enumerate(own):
            for parent in waits_for:
                children[parent].append(node)
        made = cls(own, tuple(map(tuple, children)))
        if len(made.order()) < len(own):
            raise ValueError("the steps wait for each other; a graph of steps has no cycles")
        return made

    def order(self) -> list[int]:
        """Each node after its parents, branch by branch: the first child that is ready comes next."""
        missing = [len(each) for each in self.parents]
        ready = [node for node in reversed(range(len(missing))) if not missing[node]]
        found: list[int] = []
        while ready:
            node = ready.pop()
            found.append(node)
            for child in reversed(self.children[node]):
                missing[child] -= 1
                if not missing[child]:
                    ready.append(child)
        return found

    def depths(self) -> list[int]:
        """For each node, the most edges on a path that leads to it."""
        depth = [0] * len(self.parents)
        for node in self.order():
            depth[node] = max((depth[parent] + 1 for parent in self.parents[node]), default=0)
        return depth

    def longest_path(self) -> list[int]:
        """A path of most edges; of several, the one whose last, then whose earlier nodes have the lower numbers."""
        depth = self.depths()
        if not depth:
            return []
        path = [depth.index(max(depth))]
        while depth[path[-1]]:
            wanted = depth[path[-1]] - 1
            path.append(next(parent for parent in self.parents[path[-1]] if depth[parent] == wanted))
        return path[::-1]

    def count_paths(self, most: int) -> int:
        """How many paths lead from a root to a leaf; ``most`` where there are at least as many."""
        counts = [0] * len(self.parents)
        total = 0
        for node in self.order():
            # Cut at `most`: the true number may have as many digits as the graph has nodes.
            counts[node] = min(most, sum(counts[parent] for parent in self.parents[node]) or 1)
            if not self.children[node]:
                total = min(most, total + counts[node])
        return total

    def paths(self) -> Iterator[tuple[int, ...]]:
        """Every path from a root to a leaf, in lexicographic order of the numbers."""
        for root, waits_for in enumerate(self.parents):
            if waits_for:
                continue
            path = [root]
            open_children = [iter(self.children[root])]
            while path:
                child = next(open_children[-1], None)
                if child is not None:
                    path.append(child)
                    open_children.append(iter(self.children[child]))
                    continue
                if not self.children[path[-1]]:
                    yield tuple(path)
                path.pop()
                open_children.pop()
