"""Which nodes are stale, and why. Reads and returns; changes nothing.

`drafts` says which steps there are. A step whose inputs are known is *fresh* or *stale*; one that depends on
a stale step is *waiting*, since its inputs may come out equal and stop the wave; one below an error is *blocked*.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from mobuild import elsewhere, judging, members, places
from mobuild.conditions import Surroundings, broken, undeclared, undeclared_inputs
from mobuild.contract.findings import Finding
from mobuild.drafts import Drafts, placed
from mobuild.errors import MobuildError, NodeFailed, SourceError
from mobuild.fingerprint import Change, Fingerprint, Key
from mobuild.graph import NodeSpec
from mobuild.hits import Miss, look_up
from mobuild.job import Job
from mobuild.keys import Keys, Traits, runs_program
from mobuild.steps import Edge, Plan, Step, Way, code_files, fact, verdict
from mobuild.store import Record, Ref, Store
from mobuild.whereabouts import located, shown


class Planner:
    """Makes plans against one store. Unless `judges` is false, what no engine can be made of blocks its readers."""

    def __init__(self, store: Store, keys: Keys, judges: bool = True, parses: bool = False) -> None:
        """`parses` files of the user's to judge them, which imports onnx; records tell of all other models."""
        self.store, self.keys, self.judges, self.parses = store, keys, judges, parses
        self._drafts = Drafts(keys, store.files)
        self._foreign: dict[str, Mapping[str, Any]] = {}  # digest of a file of the user's → its summary
        self.jobs: tuple[Job, ...] = ()
        self.ignored: tuple[str, ...] = ()  # folders that mobuild itself makes; what a node sees of them is no input

    def plan(self, jobs: Sequence[Job]) -> Plan:
        """The steps of `jobs` as things stand now; a job's own errors block its steps and no others."""
        self.jobs = tuple(jobs)
        own = [*places.own(self.store.root, self.store.own)]
        for build in dict.fromkeys(job.settings.build for job in jobs):
            own += places.own(build, places.made_in(build, {job.recipe for job in jobs}))
        # Programs that follow links (`find -L`) list the folders where they lie.
        self.ignored = tuple(dict.fromkeys(str(place) for path in own for place in (path, path.resolve())))
        drafts, of = self._drafts.steps(self.jobs)
        steps: dict[str, Step] = {}
        with self.store.claims.throughout(), self.store.files.reading():
            for draft in drafts:
                steps[draft.identity] = self.settle(draft, steps)
        self.store.index.keep()
        return Plan(self.jobs, steps, of)

    def settle(self, step: Step, above: Mapping[str, Step]) -> Step:
        """`step` with its state, given the steps that it needs."""
        if step.error or step.source or not step.ways:
            return step
        needed = [above[edge.identity] for edge in step.needs.values()]
        unknown = [one for one in needed if one.state != "fresh"]
        if blocking := [one for one in unknown if one.state == "blocked"]:
            return _blocked(step, f"'{blocking[0].spec.name}' cannot be built")
        if left := [one for one in unknown if one.state == "elsewhere"]:
            return dataclasses.replace(step, state="elsewhere", reasons=(f"needs '{left[0].spec.name}'",))
        job = self.jobs[step.users[0].job]  # all users of a step have the same gates above it
        if missing := [one for one in needed if job.constraints and (judged := verdict(one, job)) and judged.blocks]:
            return _blocked(step, f"'{missing[0].spec.name}' misses its constraints")
        try:
            if unknown:
                return self._waiting(step, unknown)
            inputs = self._inputs(step, above)
            _check(step, above)
            found = self._with_hit(self._told(step, above, job), inputs, above)
            if found.state != "stale":
                return found
            if job.settings.here and (reason := self._lacking(found.spec)):
                return dataclasses.replace(found, state="elsewhere", reasons=(reason,))
            elsewhere.refuse_missing_script(found.spec)
            return self._judged(found, above) if self.judges else found
        except MobuildError as error:
            error.message = placed(error.message, job, step.spec)
            return dataclasses.replace(_blocked(step, error.message), error=error)

    def taken(self, step: Step, above: Mapping[str, Step]) -> Step | None:
        """A stale step as it is when others have built it since it was settled; None when it is still to be built.

        Raises:
            NodeFailed: with `cache.strict`, of undeclared inputs.
        """
        found = self._look_up(step, self._inputs(step, above))
        return found if isinstance(found, Step) else None

    def _inputs(self, step: Step, above: Mapping[str, Step]) -> dict[str, str]:
        return {role: self._input_digest(above[edge.identity], edge) for role, edge in step.needs.items()}

    def _told(self, step: Step, above: Mapping[str, Step], job: Job) -> Step:
        """`step`, with what its node wants to know of the nodes that it needs."""
        if not hasattr(step.spec.node, "told"):
            return step
        done = {role: above[edge.identity] for role, edge in step.needs.items()}
        facts = {role: fact(one, job) for role, one in done.items() if one.record and one.fingerprint}
        specs = [dataclasses.replace(way.spec, node=way.spec.node.told(facts)) for way in step.ways]  # type: ignore[attr-defined]
        return dataclasses.replace(step, ways=tuple(Way(one, self.keys.traits(one)) for one in specs))

    def _judged(self, step: Step, above: Mapping[str, Step]) -> Step:
        """A stale step, with what the rules find in the model that it reads.

        Raises:
            Refused: of all jobs that want the step, none can make its engine.
        """
        edge = step.needs.get("model")
        producer = above[edge.identity] if edge and not edge.member else None
        onnx = self._summary(producer) if producer else {}
        if producer is None or not onnx:
            return step
        judge = judging.of_foreign if producer.source and step.spec.node.kind == "sanitize" else judging.of_step
        is_engine = getattr(step.spec.node, "backend", None) is not None  # the others' models are on their way there
        data = judging.Data.of(_upstream(step, above), self.artifact)
        said: list[tuple[Finding, ...]] = []
        for user in step.users:
            said.append(judge(self.jobs[user.job], user.name, self.keys, onnx, producer.spec.name, data))
            if not is_engine and judging.refusal(said[-1]) is None:
                return step
        refusals = [judging.refusal(found) for found in said]
        if refusals[0] and all(refusals):
            raise refusals[0]
        return dataclasses.replace(step, findings=tuple(dict.fromkeys(each for found in said for each in found)))

    def _summary(self, producer: Step) -> Mapping[str, Any]:
        """What is known of a model that a stale step reads: by its record, or by the file of the user's, which is
        parsed then; nothing of what is no model, which the step itself will tell."""
        if producer.record or not producer.source or not self.parses:
            return producer.record.onnx if producer.record else {}
        if producer.source.digest not in self._foreign:
            try:
                from mobuild.onnxmodel.summary import foreign_summary

                self._foreign[producer.source.digest] = foreign_summary(producer.source.main)
            except (ImportError, NodeFailed):
                self._foreign[producer.source.digest] = {}
        return self._foreign[producer.source.digest]

    def artifact(self, step: Step) -> Path | None:
        """Where the artifact of a step lies: in the store, or with the user; None where there is none."""
        if step.source:
            return step.source.main
        return self.store.objects.path(step.digest) if step.digest else None

    def tokens(self, step: Step, above: Mapping[str, Step]) -> dict[str, tuple[str, ...]]:
        """The stat tokens of the user's files that a step is about to read, by role."""
        contents = {role: above[edge.identity].source for role, edge in step.needs.items()}
        return {role: content.tokens() for role, content in contents.items() if content}

    def recheck(self, step: Step, above: Mapping[str, Step], tokens: Mapping[str, tuple[str, ...]]) -> None:
        """Compare the user's files and code with what the step was planned on.

        `tokens` are those from before the node ran: a file that was edited and put back meanwhile has the
        planned content again, but who knows what the node read.

        Raises:
            SourceError: one of them changed while the node ran, so its result is void.
            NodeFailed: the node wrote into an artifact that it was only to read.
        """
        self.keys.forget_code()
        if edited := sorted({name for way in step.ways for name in _differing(self.keys.traits(way.spec), way.traits)}):
            again = "run mobuild again"
            if runs_program(step.spec):
                again += "; what cmd names is read: a file that it writes belongs to {out}, or below it"
            raise SourceError(f"node {step.spec.name!r}: its code was edited while it ran: {', '.join(edited)}", again)
        for role, edge in step.needs.items():
            content = above[edge.identity].source
            if content and (
                self._drafts.content(above[edge.identity].spec).digest != content.digest
                or content.tokens() != tokens[role]
            ):
                raise SourceError(
                    f"node {step.spec.name!r}: its input {above[edge.identity].spec.name!r} changed while it ran",
                    "run mobuild again",
                )
            digest = above[edge.identity].digest
            if not content and digest and not self.store.objects.holds(digest):
                raise NodeFailed(
                    f"node {step.spec.name!r}: it changed its input {above[edge.identity].spec.name!r}, "
                    "which others read as well",
                    "let it work on a copy; the input is built again at the next run",
                )

    def _input_digest(self, producer: Step, edge: Edge) -> str:
        """The digest of an input: of the whole artifact, of one file in a folder, or of a folder in it."""
        assert producer.digest is not None
        if not edge.member:
            return producer.digest
        if source := producer.source:
            listed, found = source.digests, members.needed(edge.member, source.listed, lambda name: source.main / name)
        else:
            objects = self.store.objects
            listed = objects.listing(producer.digest) if objects.is_folder(producer.digest) else {}
            found = members.needed(edge.member, listed, lambda name: objects.path(listed[name]))
        if not found or (source and edge.member in source.others):
            raise SourceError(
                f"node {producer.spec.name!r} has no member {edge.member!r}", f"Members: {', '.join(listed) or 'none'}"
            )
        return members.digest_of(edge.member, found)

    def _lacking(self, spec: NodeSpec) -> str:
        return elsewhere.lacking(spec, self.keys.environment(spec))

    def _waiting(self, step: Step, unknown: Sequence[Step]) -> Step:
        names = ", ".join(f"'{one.spec.name}'" for one in unknown)
        is_here = self.jobs[step.users[0].job].settings.here
        lacking = self._lacking(step.spec) if is_here else ""  # told early; its inputs may still make it fresh
        if not is_here:
            elsewhere.refuse_missing_script(step.spec)
        reasons = (f"waits for {names}", *([lacking] if lacking else []))
        return dataclasses.replace(step, state="waiting", reasons=reasons, past=self._past(step))

    def _with_hit(self, step: Step, inputs: Mapping[str, str], above: Mapping[str, Step]) -> Step:
        """Fresh when one of the ways has been done already, else stale with the reasons."""
        missed = self._look_up(step, inputs)
        if isinstance(missed, Step):
            return missed
        way, last = step.ways[-1], self.last(step)
        fingerprint = way.fingerprint(inputs)
        changes = self._changes_since(last, fingerprint, way) if last else missed.changes
        changes = self._located(changes, step, way, above)
        return dataclasses.replace(
            step,
            state="stale",
            spec=way.spec,
            fingerprint=fingerprint,
            reasons=self._reasons(missed, changes, last, fingerprint.key),
            changes=changes,
            past=self._past(step),
        )

    def _look_up(self, step: Step, inputs: Mapping[str, str]) -> Step | Miss:
        """The step as done, in the best of its ways that has a record; else why the last one has none."""
        missed = Miss()
        for way in step.ways:
            fingerprint = way.fingerprint(inputs)
            found = look_up(self.store, way.key(inputs), fingerprint, partial(self.surroundings, way.spec))
            if isinstance(found, Record):
                self._refuse_undeclared(step, found)
                of = step.identity, way.spec, step.ways, step.needs, step.users
                return Step(*of, "fresh", fingerprint=fingerprint, digest=found.artifact.digest, record=found)
            missed = found
        return missed

    def _reasons(self, missed: Miss, changes: Sequence[Change], last: Ref | None, key: Key) -> tuple[str, ...]:
        """Why a step is stale, in the words of `plan` and `why`."""
        if missed.lost:
            fate = "damaged" if self.store.objects.is_damaged(missed.lost) else "missing"
            return (f"its artifact in the cache is {fate}",)
        if changes:
            return tuple(map(str, changes))
        if self.store.records.is_damaged(key):
            return ("its record in the cache is damaged",)
        return ("its record in the cache is missing" if last else "never built",)

    def _refuse_undeclared(self, step: Step, record: Record) -> None:
        """With `cache.strict`, what was built from undeclared inputs is no more welcome than building from them.

        Raises:
            NodeFailed: names those inputs.
        """
        if undeclared(record.conditions) and self.jobs[step.users[0].job].settings.strict:
            raise undeclared_inputs(step.spec.name, record.conditions)

    def _changes_since(self, last: Ref, now: Fingerprint, way: Way) -> tuple[Change, ...]:
        """What differs from the last build: of its fingerprint, and of what was observed beyond that."""
        observed = broken(last.conditions, self.surroundings(way.spec), self.store.files)
        return now.changes_since(last.fingerprint) + observed

    def _located(
        self, changes: Sequence[Change], step: Step, way: Way, above: Mapping[str, Step]
    ) -> tuple[Change, ...]:
        """`changes` with the files that they stand in."""
        needed = {role: (above[edge.identity], edge.member) for role, edge in step.needs.items()}
        sources = {role: (one.source, member) for role, (one, member) in needed.items() if one.source}
        places = {role: shown(source.main / member, step.spec.root) for role, (source, member) in sources.items()}
        now: dict[str, Mapping[str, str]] = {source.digest: source.listed for source, _ in sources.values()}
        known = self.store.listings.get
        return located(changes, code_files(way), places, lambda digest: now.get(digest) or known(digest))

    def surroundings(self, spec: NodeSpec) -> Surroundings:
        """What the conditions of a node's records are compared with."""
        return Surroundings(spec.root, spec.folder, self.keys.environment(spec), self.ignored)

    def last(self, step: Step) -> Ref | None:
        """The last build of this node of this variant."""
        for user in step.users:
            job = self.jobs[user.job]
            if found := self.store.refs.get(job.settings.project, job.recipe, job.variant, user.name):
                return found
        return None

    def _past(self, step: Step) -> Record | None:
        """The record of the last build of this node."""
        last = self.last(step)
        found = self.store.records.find(last.fingerprint.key) if last else ()
        return found[0] if found else None


def _upstream(step: Step, above: Mapping[str, Step]) -> Iterator[Step]:
    """The steps that a step is made from, directly or not."""
    waiting = [step]
    while waiting:
        for edge in waiting.pop().needs.values():
            waiting.append(above[edge.identity])
            yield waiting[-1]


def _differing(now: Traits, before: Traits) -> set[str]:
    """The names under which code counts that is not what it was."""
    return {name for name, _ in now.code.items() ^ before.code.items()}


def _blocked(step: Step, reason: str) -> Step:
    return dataclasses.replace(step, state="blocked", reasons=(reason,))


def _check(step: Step, above: Mapping[str, Step]) -> None:
    """Let a node judge the models that it is given, while nothing has run yet."""
    if check := getattr(step.spec.node, "check", None):
        producers = {role: above[edge.identity] for role, edge in step.needs.items() if not edge.member}
        check({role: one.record.onnx for role, one in producers.items() if one.record and one.record.onnx})
