"""Checks of a command on this machine: its engine, its model, its threads."""

from __future__ import annotations

from collections.abc import Iterator

from numamirror_cli.doctor.check import BAD, OK, WARN, Check
from numamirror_cli.doctor.facts import Facts, Subject
from numamirror_cli.doctor.settings import Settings
from numamirror_cli.engine.reach import DENSE_ONLY, FULL, POLICY_ONLY, UNKNOWN
from numamirror_cli.figures import counted, percent, with_verb
from numamirror_cli.machine.cores import cpus_in_order
from numamirror_cli.machine.model import Machine
from numamirror_cli.memory.lock_limit import UNLIMITED
from numamirror_cli.memory.model_cache import ModelCache
from numamirror_cli.plan.advice import LockLimit
from numamirror_cli.plan.cores import cores_by_mirror_node
from numamirror_cli.plan.estimate import Estimate, Row
from numamirror_cli.plan.layout import MIRROR
from numamirror_cli.quoting import shell_word
from numamirror_cli.report.plan_advice import advise
from numamirror_cli.report.units import part_of, size

_CAN_BE = {
    FULL: "can be mirrored",
    DENSE_ONLY: "its dense weights can be mirrored",
    POLICY_ONLY: "cannot be mirrored, only placed",
    UNKNOWN: "not known",
}
_MORE = "numamirror check -- COMMAND shows what was looked at"
# A few pages elsewhere are always there.
_NEARLY_NONE = 0.05


def command_checks(facts: Facts) -> Iterator[Check]:
    """All checks of the command that was given; none without one."""
    subject = facts.subject
    if subject is None:
        return
    yield from _engine(subject, facts.machine)
    yield from _model(subject)
    if subject.estimate is not None:
        yield from _memory(subject.estimate)
        yield from _lock_limit(facts.settings, subject.estimate)
    yield from _page_cache(subject, facts.machine)
    yield from _threads(subject, facts.machine)


def _engine(subject: Subject, machine: Machine) -> Iterator[Check]:
    """What `check` says; on one node a mirror would be of no use anyway."""
    if subject.examination is None:
        return
    reach = subject.examination.reach
    bad = BAD if len(machine.mirror_nodes) > 1 else WARN
    level = {FULL: OK, DENSE_ONLY: WARN, POLICY_ONLY: bad}.get(reach.level, WARN)
    why = "" if reach.level == FULL else f": {reach.why}"
    remedy = reach.remedy or ("" if reach.level == FULL else _MORE)
    yield Check("engine", level, f"{_CAN_BE[reach.level]}{why}", remedy)


def _model(subject: Subject) -> Iterator[Check]:
    if subject.problem and not subject.model:
        yield Check("arguments", BAD, subject.problem, "correct it: an engine will refuse it, too")
    elif subject.problem:
        yield Check("model", BAD, subject.problem, "name a GGUF file that can be read with -m")
    elif subject.estimate is not None and (model := subject.estimate.request.model).missing:
        there = part_of(max(0, model.bytes - model.missing), model.bytes)
        text = f"only {there} are in its files: its download is not complete"
        yield Check("model", BAD, text, "download it again, and compare its size or checksum")
    elif subject.estimate is not None:
        work = subject.estimate.workload
        text = f"{size(work.resident)} stay on the CPU, {size(work.gemm)} of them read by GEMM"
        yield Check("model", OK, text)


def _memory(estimate: Estimate) -> Iterator[Check]:
    """Free memory of each node against what comes to lie there."""
    rows = [row for row in estimate.rows if row.strategy == MIRROR]
    per_node = next((row for row in rows if row.copies_on == "node"), None)
    if per_node is None:
        needed = estimate.workload.resident + estimate.kv_bytes
        there = sum(estimate.there.values())
        of = f"{size(needed)} with its KV cache; {size(there)} are free"
        if estimate.there:
            fewer = "take a smaller model or quantization, or a shorter context (-c)"
            if needed > there:
                yield Check("memory", BAD, f"the model needs {of}", fewer)
            else:
                yield Check("memory", OK, f"the model needs {of}")
        return
    if per_node.ram.fits:
        copies = len(per_node.ram.needs)
        text = f"{copies} copies need {size(per_node.ram.bytes)}: they fit, with {_there(estimate)}"
        yield Check("memory", OK, text)
        return
    lacking = ", ".join(
        f"node {need.nodes[0]} needs {size(need.bytes)} and has "
        f"{size(estimate.there.get(need.nodes[0], 0))}"
        for need in per_node.ram.lacking
    )
    yield Check("memory", WARN, f"copies do not fit: {lacking}", _instead(rows))


def _there(estimate: Estimate) -> str:
    """ "64 GiB free on node 0, 62 GiB on node 1"."""
    amounts = [f"{size(count)} on node {node}" for node, count in sorted(estimate.there.items())]
    return ", ".join([amounts[0].replace(" on", " free on"), *amounts[1:]])


def _instead(rows: list[Row]) -> str:
    if any(row.copies_on == "socket" and row.ram.fits for row in rows):
        return "numamirror run --per socket ..."
    return "numamirror plan MODEL: a part of the weights is mirrored then, what is read most first"


def _lock_limit(settings: Settings, estimate: Estimate) -> Iterator[Check]:
    """RLIMIT_MEMLOCK against the model, times its copies (case N03)."""
    limit = settings.lock_limit
    if limit is None:
        return
    copies = max(1, len(estimate.there))
    need = estimate.workload.resident
    if limit == UNLIMITED:
        yield Check("memlock", OK, "no limit")
    elif not estimate.request.arguments.mlock:
        yield Check("memlock", OK, f"limit {size(limit)}; without --mlock nothing is locked")
    elif need * copies <= limit:
        yield Check("memlock", OK, f"limit {size(limit)} is enough for --mlock")
    else:
        notice = advise(LockLimit(need, copies, limit))
        yield Check("memlock", BAD, notice.what, notice.remedy)


def _page_cache(subject: Subject, machine: Machine) -> Iterator[Check]:
    """Pages stay where they were first read, whatever policy the next program has."""
    cache, home = subject.cache, machine.home.node
    if cache is None or home is None:
        return
    if not cache.cached:
        yield Check("page cache", OK, f"nothing of the model is cached: it will go to node {home}")
        return
    elsewhere = cache.cached - cache.on(frozenset({home}))
    if elsewhere <= _NEARLY_NONE * cache.cached:
        yield Check("page cache", OK, f"{size(cache.cached)} of the model on node {home}, the home")
        return
    yield Check("page cache", WARN, _elsewhere_text(cache, home), _warm(subject, home))


def _elsewhere_text(cache: ModelCache, home: int) -> str:
    parts = ", ".join(
        f"{percent(count / cache.cached)} on node {node}" for node, count in cache.by_node.items()
    )
    return f"{size(cache.cached)} of the model are cached, {parts}; the home is node {home}"


def _warm(subject: Subject, home: int) -> str:
    return f"numamirror cache {shell_word(subject.model)} --warm {home}"


def _threads(subject: Subject, machine: Machine) -> Iterator[Check]:
    """Two threads on one core share what it can read; on a busy core both wait."""
    if subject.problem and not subject.model:  # then its arguments are not known
        return
    threads = subject.arguments.threads
    cores = sum(cores_by_mirror_node(machine).values())
    cpus = sum(len(cpus_in_order(node)) for node in machine.nodes)
    if not cores:
        return
    allowed, on = with_verb(cores, "physical core"), counted(cores, "physical core")
    if threads is None:
        yield Check("threads", OK, f"the engine's choice; {allowed} allowed")
    elif threads > cpus:
        only = with_verb(cpus, "CPU")
        text = f"-t {threads}, but only {only} allowed: threads wait for one another"
        yield Check("threads", BAD, text, f"-t {cores}")
    elif threads > cores:
        text = f"-t {threads} on {on}: SMT siblings share what a core can read"
        yield Check("threads", WARN, text, f"-t {cores}")
    else:
        yield Check("threads", OK, f"-t {threads} on {on}")
