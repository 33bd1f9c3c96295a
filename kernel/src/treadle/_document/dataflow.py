"""Who writes what each step reads, and whether that has happened by then.

Steps are numbered by layer (how many steps come before them, one after another), then by their place in the document:
a set of steps is one integer with a bit for each, and whatever comes before a step has a lower bit. So the whole takes
time in proportion to the number of steps, times the words of such an integer.

A run of AgentLoom goes layer by layer, so a step sees what earlier layers wrote without depending on it. Treadle has
no layers: such a step gets an order-only edge, and a warning that says which dependency it lacks.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from functools import cached_property, reduce
from itertools import islice
from operator import or_
from typing import Any, NamedTuple

from treadle._dataclasses import dataclass
from treadle._document.problems import Inside, Path, Reporter, dotted_path
from treadle._language import MISSING, ArgumentTree, Expression, StatePath, Template, look_up
from treadle._language.paths import Part, path_text
from treadle._suggest import close_match
from treadle.contracts.step import Step

__all__ = ["Knowledge", "check_dataflow", "keys_read", "keys_written", "unread_keys", "words_of"]

Edges = tuple[tuple[str, str], ...]
_Shared = dict[int, tuple[tuple[Part, ...], int]]

_DEEPEST = 64
"""How many of the routers around a step are looked at."""

_NAMED = 6
"""How many steps a message names."""


@dataclass(frozen=True, slots=True)
class Knowledge:
    """What is known of a workflow besides its steps.

    :param state: the initial state.
    :param keys: further keys that a run will be given.
    :param broken: steps with mistakes, as they are written, by their place in the document.
    :param ids: the ids of all steps, those included of which nothing else is known.
    :param doubtful: words of steps with mistakes, here and around, any of which may be a key.
    :param scoped: names that are known only inside a step, with the id of that.
    :param below: what the child workflows of steps read of the state around them, by the step's place: their field
        and the keys.
    """

    state: Mapping[str, Any]
    keys: frozenset[str]
    broken: Mapping[int, Mapping[str, Any]]
    ids: frozenset[str]
    doubtful: frozenset[str] = frozenset()
    scoped: Mapping[str, str] = field(default_factory=dict)
    below: Mapping[int, Sequence[tuple[Path, frozenset[str]]]] = field(default_factory=dict)


class _Read(NamedTuple):
    """One read of a step: ``of`` the state or of steps, at which parts, as it is shown, and where it stands.

    A ``conversation`` need not be there: it begins with its first turn.
    """

    place: Path
    of: str
    parts: tuple[Part, ...]
    shown: str
    inside: Inside | None
    bare: bool = False
    conversation: bool = False


@dataclass(slots=True)
class _Node:
    """A state path: the writers of exactly it, and those of it and of everything below it."""

    here: int = 0
    below: int = 0
    parts: dict[Part, _Node] = field(default_factory=dict)


def check_dataflow(steps: Mapping[int, Step], known: Knowledge, report: Reporter, *, strict_outputs: bool) -> Edges:
    """Note reads that nothing provides or that come too early, and outputs that parallel steps share.

    Gives the order-only edges that keep the meaning of a file written for layers, each from the earlier step to the
    later. Nothing is done where steps wait for each other in a circle.
    """
    graph = _Graph.of(steps, known)
    return _Check(graph, known, report).everything(strict_outputs=strict_outputs) if graph else ()


class _Graph:
    """The steps in the order of their numbers."""

    def __init__(self, steps: Sequence[Step], places: Sequence[int], layers: Sequence[int], known: Knowledge) -> None:
        self.steps = steps
        self.places = places
        self.number: dict[str, int] = {}
        for number in sorted(range(len(steps)), key=places.__getitem__):
            self.number.setdefault(steps[number].id, number)
        self.dependencies = [
            [self.number[each] for each in step.depends_on if self.number.get(each, number) != number]
            for number, step in enumerate(steps)
        ]
        begins = [number for number, layer in enumerate(layers) if not number or layers[number - 1] != layer]
        self.layer_begins = [begins[layer] for layer in layers]
        self.layer_ends = [[*begins, len(steps)][layer + 1] for layer in layers]
        # Of a step with mistakes it is not known what it waits for, and of one that waits for a router with mistakes
        # not whether it is a target: nothing is said of its order.
        everything = (1 << len(steps)) - 1
        sure = self.number.keys() - {
            step.id
            for step, place in zip(steps, places, strict=True)
            if (targets := set(step.targets())) and (place in known.broken or targets - self.number.keys())
        }
        self.before = [
            everything if place in known.broken or not sure >= set(step.depends_on) else 0
            for step, place in zip(steps, places, strict=True)
        ]

    @classmethod
    def of(cls, steps: Mapping[int, Step], known: Knowledge) -> _Graph | None:
        """The graph, None where steps wait for each other in a circle."""
        first: dict[str, int] = {}
        for place, step in steps.items():
            first.setdefault(step.id, place)
        waits_for = {
            place: {first[each] for each in step.depends_on if first.get(each, place) != place}
            for place, step in steps.items()
        }
        dependents: dict[int, list[int]] = {place: [] for place in steps}
        for place, dependencies in waits_for.items():
            for each in dependencies:
                dependents[each].append(place)
        layer = [place for place, dependencies in waits_for.items() if not dependencies]
        waiting = {place: len(dependencies) for place, dependencies in waits_for.items()}
        places: list[int] = []
        layers: list[int] = []
        while layer:
            layers += [layers[-1] + 1 if layers else 0] * len(layer)
            places += sorted(layer)
            settled = [each for place in layer for each in dependents[place]]
            for each in settled:
                waiting[each] -= 1
            layer = [each for each in dict.fromkeys(settled) if not waiting[each]]
        return cls([steps[place] for place in places], places, layers, known) if len(places) == len(steps) else None


class _Branches:
    """Which steps never run in one run, as they are on different branches of a router.

    Edges from routers to their targets are numbered too. A step is on the branches of what it waits for; it has left
    a router's branches behind where it waits for something on each. Of routers in routers the innermost count.
    """

    def __init__(self, graph: _Graph) -> None:
        self._edges = [0] * len(graph.steps)  # of each router, as a set
        gates: dict[int, list[tuple[int, int]]] = {}
        count = 0
        for number, step in enumerate(graph.steps):
            for name in step.targets():
                target = graph.number.get(name)
                if target is not None and number in graph.dependencies[target]:
                    gates.setdefault(target, []).append((number, 1 << count))
                    self._edges[number] |= 1 << count
                    count += 1
        self._on = [0] * count
        self._constrained: dict[int, int] = dict.fromkeys((router for each in gates.values() for router, _ in each), 0)
        self._routers: list[int] = []  # those on some of whose branches the step is not
        self._allowed: list[int] = []
        excluding: list[int] = []
        skippable: list[bool] = []
        for number, dependencies in enumerate(graph.dependencies if gates else ()):
            routers = allowed = excluded = 0
            for each in dependencies:
                routers |= self._routers[each]
                allowed |= self._allowed[each]
                excluded |= excluding[each]
            if len(dependencies) > 1:
                excluded &= ~allowed
                routers = sum(1 << router for router in _bits(routers) if self._edges[router] & excluded)
            step = graph.steps[number]
            skippable.append(step.when is not None or number in gates or any(skippable[each] for each in dependencies))
            for router, edge in gates.get(number, ()):
                if len(dependencies) > 1 and skippable[router]:
                    continue  # where the router is skipped, the step may run for another's sake
                routers |= 1 << router
                allowed |= edge
                excluded = (excluded | self._edges[router]) & ~edge
            while routers.bit_count() > _DEEPEST:
                routers &= routers - 1
            self._routers.append(routers)
            self._allowed.append(allowed)
            excluding.append(excluded)
            for router in _bits(routers):
                self._constrained[router] |= 1 << number
                for edge in _bits(allowed & self._edges[router]):
                    self._on[edge] |= 1 << number

    def exclude(self, number: int) -> int:
        """The steps that do not run where this one does."""
        never = 0
        for router in _bits(self._routers[number]) if self._routers else ():
            together = 0
            for edge in _bits(self._allowed[number] & self._edges[router]):
                together |= self._on[edge]
            never |= self._constrained[router] & ~together
        return never


class _Check:
    def __init__(self, graph: _Graph, known: Knowledge, report: Reporter) -> None:
        self._graph = graph
        self._known = known
        self._report = report
        self._branches = _Branches(graph)
        self._order: list[tuple[str, str]] = []
        self._before = list(graph.before)
        self._written = _Node()
        self._talking: dict[tuple[Part, ...], int] = {}
        for number, step in enumerate(graph.steps):
            for path in step.conversations():
                self._talking[path.parts] = self._talking.get(path.parts, 0) | 1 << number
            for path in step.writes():
                for node in self._way(path.parts, make=True):
                    node.below |= 1 << number
                node.here |= 1 << number
        self._keys = known.state.keys() | known.keys
        self._names_of_keys = self._keys | {str(each) for each in self._written.parts}

    def everything(self, *, strict_outputs: bool) -> Edges:
        shared: _Shared = {}
        for number, step in enumerate(self._graph.steps):
            for each in self._graph.dependencies[number]:
                self._before[number] |= self._before[each] | 1 << each
            for read in _reads(step):
                if read.of == "state" and read.parts[0] == "steps" and "steps" not in self._keys:
                    read = read._replace(of="steps", parts=read.parts[1:])
                if read.of == "state":
                    self._check_state_read(number, read)
                elif read.parts:
                    self._check_step_read(number, read)
            for place, keys in self._known.below.get(self._graph.places[number], ()):
                for key in sorted(keys & self._written.parts.keys()):
                    self._check_state_read(number, _Read(place, "state", (key,), f"state.{key}", None))
            for path in step.writes():
                if not self._talking.get(path.parts, 0) >> number & 1:
                    self._note_shared(number, path.parts, shared)
        for parts, writers in shared.values():
            self._report_shared(parts, writers, strict=strict_outputs)
        return tuple(self._order)

    # --- reads ----------------------------------------------------------------------------------------

    def _check_step_read(self, number: int, read: _Read) -> None:
        name = str(read.parts[0])
        target = self._graph.number.get(name)
        if target == number:
            self._add(number, read, "early-read", f"'{read.shown}' is read by the step itself, before it has run")
        elif target is not None:
            self._check_order(number, read, 1 << target, 1 << target, provided=False)
        elif name not in self._known.ids:
            others = self._known.ids - {self._graph.steps[number].id}
            hint = self._report.did_you_mean(name, others)
            fix = self._respelt(read, name, others, 1 + read.shown.startswith("state."))
            self._add(number, read, "unknown-step", f"no step '{name}'", hint, fix=fix, severity="error")

    def _check_state_read(self, number: int, read: _Read) -> None:
        root = str(read.parts[0])
        way = self._way(read.parts)
        covering = reduce(or_, (node.here for node in way), 0)
        inside = way[-1].below if way and len(way) == len(_settled(read.parts)) else 0
        related = (covering | inside) & ~(1 << number)
        if related:
            self._check_order(number, read, covering, related, provided=root in self._keys or read.conversation)
        elif read.conversation:
            return
        elif root in self._keys:
            self._check_inside(number, read)
        elif root not in self._known.doubtful:
            self._add_unprovided(number, read)

    def _check_order(self, number: int, read: _Read, covering: int, related: int, *, provided: bool) -> None:
        begins, end = self._graph.layer_begins, self._graph.layer_ends[number]
        missing = related & ~self._before[number]
        if not missing:
            return
        running = missing & ~self._branches.exclude(number)
        earlier = running & ((1 << begins[number]) - 1)
        # What an earlier layer wrote is overwritten by what this step waits for; in one layer, there is no telling.
        newest = covering & self._before[number]
        if newest:
            overwritten = self._graph.layer_ends[newest.bit_length() - 1]
            earlier = earlier >> overwritten << overwritten
        added = 0
        while earlier:
            writer = earlier.bit_length() - 1
            added |= 1 << writer
            self._order.append((self._graph.steps[writer].id, self._graph.steps[number].id))
            self._before[number] |= self._before[writer] | 1 << writer
            earlier &= ~self._before[number]
            if covering >> writer & 1:
                earlier = earlier >> begins[writer] << begins[writer]
        if added:
            reason = "which this step does not wait for; it is run afterwards all the same"
            message = f"'{read.shown}' comes from {self._names(added)}, {reason}"
            self._add(number, read, "missing-dependency", message, self._depends_on(added))
        beside = (running & ((1 << end) - 1)) >> begins[number] << begins[number]
        if read.conversation and (talking := beside & self._talking[read.parts]):
            beside &= ~talking
            if others := talking & ((1 << number) - 1):  # told once, of the later of the two
                message = f"{self._names(others | 1 << number)} may run at the same time and go on with '{read.shown}'"
                hint = f"each would keep a copy of its own, and a turn would be lost; {self._depends_on(others)}"
                self._add(number, read, "shared-conversation", message, hint, severity="error")
        if beside:
            message = f"'{read.shown}' comes from {self._names(beside)}, which may run at the same time; it is not seen"
            self._add(number, read, "parallel-read", message, self._depends_on(beside))
        elif provided or related & self._before[number]:
            return
        elif running:
            message = f"'{read.shown}' comes only later, from {self._names(running)}"
            hint = "" if read.of == "steps" else f"give '{read.parts[0]}' a first value under state:, or "
            self._add(number, read, "early-read", message, f"{hint}change the order of the steps")
        else:
            message = f"nothing provides '{read.shown}' here: it comes from {self._names(missing)}, on another branch"
            self._add(number, read, "nothing-provides", message)

    def _check_inside(self, number: int, read: _Read) -> None:
        """A value of the initial state that no step changes has the parts it has; a run may be given others."""
        value: Any = {} if read.parts[0] in self._known.keys else self._known.state
        depth = 0
        while depth < len(read.parts) and (below := look_up(value, read.parts[depth : depth + 1])) is not MISSING:
            value, depth = below, depth + 1
        if not 0 < depth < len(read.parts) or not isinstance(value, Mapping) or not self._report.looks_for_names:
            return
        part = str(read.parts[depth])
        match = close_match(part, value)
        if match is not None:
            message = f"nothing provides '{read.shown}': '{path_text(read.parts[:depth])}' has no '{part}'"
            fix = self._respelt(read, part, value, depth + (not read.bare))
            self._add(number, read, "nothing-provides", message, f"did you mean '{match}'?", fix=fix)

    def _add_unprovided(self, number: int, read: _Read) -> None:
        root = str(read.parts[0])
        if root in self._known.scoped:
            message = f"'{read.shown}' is known only inside step '{self._known.scoped[root]}', and not here"
            self._add(number, read, "nothing-provides", message)
            return
        if read.bare and root not in self._names_of_keys:
            # Looked up, not searched for: prose has words in braces, in every step.
            near = {key for each in _shortened(root) for key in self._near.get(each, ())} if len(root) > 3 else set()
            if near:
                message = f"'{{{read.shown}}}' stays as it is written, as nothing provides '{root}'"
                hint = f"did you mean '{min(near)}'?"
                fix = self._respelt(read, root, near, 0)
                self._add(number, read, "unknown-placeholder", message, hint, fix=fix)
            return
        message = f"nothing provides '{read.shown}'"
        if any(path.parts[: len(read.parts)] == read.parts for path in self._graph.steps[number].writes()):
            message += " before this step writes it"
        known = self._names_of_keys - {root} if self._report.looks_for_names else ()
        match = close_match(root, known)
        hint = f"did you mean '{match}'?" if match else f"declare '{root}' under state:, or pass -s {root}=..."
        self._add(number, read, "nothing-provides", message, hint, fix=self._respelt(read, root, known, 1))

    @cached_property
    def _near(self) -> dict[str, list[str]]:
        """State keys by what they are without one of their letters."""
        near: dict[str, list[str]] = {}
        for key in self._names_of_keys:
            for each in _shortened(key):
                near.setdefault(each, []).append(key)
        return near

    def _respelt(self, read: _Read, name: str, known: Any, position: int) -> tuple[str, str] | None:
        """The reference as it is written, and with the one name in it that is like the misspelt one."""
        fix = self._report.only(name, known)
        if fix is None or read.inside is None:
            return None
        value, start, end = read.inside
        written = value[start:end]
        pieces = written.split(".")
        if position >= len(pieces) or pieces[position].partition("[")[0] != name:
            return None
        pieces[position] = fix[1] + pieces[position][len(name) :]
        return written, ".".join(pieces)

    def _add(self, number: int, read: _Read, code: str, message: str, hint: str | None = None, **more: Any) -> None:
        path = ("steps", self._graph.places[number], *read.place)
        more.setdefault("severity", "warning")
        self._report.add(path, code, message, hint=hint, inside=read.inside, **more)

    # --- writes ---------------------------------------------------------------------------------------

    def _note_shared(self, number: int, parts: tuple[Part, ...], shared: _Shared) -> None:
        """Note the earlier steps that may run beside this one and write the same, by the shorter of the two paths."""
        way = self._way(parts)
        for depth, node in enumerate(way, 1):
            writers = node.below if depth == len(way) else node.here
            writers &= ((1 << number) - 1) & ~self._before[number]
            if writers and (writers := writers & ~self._branches.exclude(number)):
                _, others = shared.get(id(node), ((), 0))
                shared[id(node)] = (parts[:depth], others | writers | 1 << number)

    def _report_shared(self, parts: tuple[Part, ...], writers: int, *, strict: bool) -> None:
        steps, places = self._graph.steps, self._graph.places
        number = sorted(_bits(writers), key=places.__getitem__)[1]
        message = f"{self._names(writers)} may run at the same time and write '{path_text(parts)}'"
        hint = "the one that ends last is seen; give each a path of its own, or let one wait for the other"
        output = steps[number].output
        field = ("output",) if output is not None and output.parts[: len(parts)] == parts else ()
        path = ("steps", places[number], *field)
        self._report.add(path, "shared-output", message, hint=hint, severity="error" if strict else "warning")

    # --- words ----------------------------------------------------------------------------------------

    def _way(self, parts: tuple[Part, ...], *, make: bool = False) -> list[_Node]:
        """The nodes along a path, as far as there are any."""
        node, way = self._written, []
        for part in _settled(parts):
            if make:
                node = node.parts.setdefault(part, _Node())
            elif part in node.parts:
                node = node.parts[part]
            else:
                break
            way.append(node)
        return way

    def _ids(self, writers: int) -> list[str]:
        """Some of them, where they are many."""
        numbers = sorted(islice(_bits(writers), _NAMED), key=self._graph.places.__getitem__)
        return [self._graph.steps[each].id for each in numbers]

    def _names(self, writers: int) -> str:
        *some, last = (f"'{each}'" for each in self._ids(writers))
        more = writers.bit_count() - _NAMED
        if more > 0:
            return f"steps {', '.join(some)}, {last} and {more} more"
        return f"steps {', '.join(some)} and {last}" if some else f"step {last}"

    def _depends_on(self, writers: int) -> str:
        more = ", ..." if writers.bit_count() > _NAMED else ""
        return f"add depends_on: [{', '.join(self._ids(writers))}{more}]"


def keys_read(steps: Iterable[Step]) -> frozenset[str]:
    """The top-level keys of the state that steps read."""
    return frozenset(str(each.parts[0]) for step in steps for each in _reads(step) if each.of == "state")


def keys_written(steps: Iterable[Step]) -> frozenset[str]:
    """The top-level keys of the state that steps write."""
    return frozenset(path.root for step in steps for path in step.writes())


def words_of(broken: Iterable[Any]) -> set[str]:
    """What steps with mistakes, and values that are not kept, may have been meant to write."""
    return {word for each in broken for word in _words(each)}


def unread_keys(steps: Iterable[Step], known: Iterable[str], given: Iterable[str]) -> Iterator[tuple[str, str | None]]:
    """Each given key of the state that no step reads and that is not known otherwise, and which one may be meant."""
    names = {*known, *keys_read(steps)}
    return ((key, close_match(key, names)) for key in given if key not in names)


def _reads(step: Step) -> Iterator[_Read]:
    """What a step reads; once for each field and reference."""
    conversations = frozenset(step.conversations())
    for dotted, value in step.reads():
        place = dotted_path(dotted)
        talks = isinstance(value, StatePath) and value in conversations
        seen: set[tuple[Path, str]] = set()
        for read in _reads_of(place, value):
            if read.parts and (read.place, read.shown) not in seen:
                seen.add((read.place, read.shown))
                yield read._replace(conversation=True) if talks else read


def _reads_of(place: Path, value: Template | Expression | StatePath | ArgumentTree) -> Iterator[_Read]:
    if isinstance(value, ArgumentTree):
        for below, leaf in value.leaves():
            yield from _reads_of((*place, *below), leaf)
    elif isinstance(value, StatePath):
        yield _Read(place, "state", value.parts, f"state.{value}", None)
    elif isinstance(value, Expression):
        for each in value.references:
            found = list(re.finditer(rf"(?<![\w.]){re.escape(each.text)}(?!\w)", value.source))
            inside = (value.source, *found[0].span()) if len(found) == 1 else None
            yield _Read(place, each.root, each.parts, each.text, inside)
    else:
        for each in value.references:
            assert each.offset is not None
            inside = (value.source, each.offset + 1, each.offset + 1 + len(each.text))
            bare = each.root != "state"
            yield _Read(place, "state", (each.root, *each.parts) if bare else each.parts, each.text, inside, bare)


def _shortened(word: str) -> set[str]:
    """The word, and what is left of it without any one letter: misspelt words mostly have one of these in common."""
    return {word, *(word[:at] + word[at + 1 :] for at in range(len(word)))}


def _settled(parts: tuple[Part, ...]) -> tuple[Part, ...]:
    """The parts before an index from the end, which may mean any entry."""
    return next((parts[:n] for n, part in enumerate(parts) if isinstance(part, int) and part < 0), parts)


def _bits(value: int) -> Iterator[int]:
    """The numbers of the bits that are set, rising."""
    text = bin(value)[:1:-1]
    at = text.find("1")
    while at >= 0:
        yield at
        at = text.find("1", at + 1)


def _words(value: Any) -> Iterator[str]:
    """The state keys that any text in a step might be meant to write."""
    pending = [value]
    while pending:
        each = pending.pop()
        if isinstance(each, Mapping):
            pending.extend((*each, *each.values()))
        elif isinstance(each, list | tuple):
            pending.extend(each)
        elif isinstance(each, str):
            yield each.removeprefix("state.").partition(".")[0].partition("[")[0]
