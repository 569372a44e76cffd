"""Doctor's checks of a command: engine, model, memory, locked memory, page cache, threads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from numamirror_cli.doctor.check import BAD, OK, WARN, Check
from numamirror_cli.doctor.command_checks import command_checks
from numamirror_cli.doctor.diagnosis import gather_facts
from numamirror_cli.doctor.facts import Facts, Subject
from numamirror_cli.doctor.settings import Settings
from numamirror_cli.engine.examination import Examination
from numamirror_cli.engine.followed import Followed
from numamirror_cli.engine.reach import DENSE_ONLY, FULL, POLICY_ONLY, UNKNOWN, Reach
from numamirror_cli.memory.lock_limit import UNLIMITED
from numamirror_cli.memory.model_cache import ModelCache
from numamirror_cli.memory.page_cache import CacheState
from numamirror_cli.plan.engine_args import parse_engine_args
from numamirror_cli.plan.estimate import Request, estimate
from numamirror_cli.plan.facts import Model, Tensor
from tests.unit.conftest import MakeRoot
from tests.unit.memory.replay import case

GIB, MIB = 1 << 30, 1 << 20
TWO = {0: {"cpus": "0-7", "mem_mib": 65536}, 1: {"cpus": "8-15", "mem_mib": 65536}}
ONE = {0: {"cpus": "0-7", "mem_mib": 65536}}


def model_of(size: int) -> Model:
    """One matrix of so many bytes."""
    tensor = Tensor("blk.0.ffn_up.weight", "Q8_0", (32, 2), size)
    return Model((Path("m.gguf"),), "m", "llama", (tensor,), {"block_count": 1})


def facts_about(
    root: Path,
    size: int = 0,
    *,
    words: Sequence[str] = (),
    reach: Reach | None = None,
    cache: ModelCache | None = None,
    settings: Settings | None = None,
) -> Facts:
    """Of a machine and a command whose model has `size` bytes; 0 for no model."""
    facts = gather_facts(root, (), {})
    if settings is not None:
        facts = replace(facts, settings=settings)
    arguments = parse_engine_args(["engine", *words])
    examination = None
    if reach is not None:
        examination = Examination("engine", Followed(None, ()), (), "glibc", None, reach)
    weighed = estimate(Request(model_of(size), facts.machine, arguments)) if size else None
    subject = Subject(("engine", *words), arguments, examination, "m.gguf", weighed, cache=cache)
    return replace(facts, subject=subject)


def checks(facts: Facts) -> dict[str, Check]:
    return {check.name: check for check in command_checks(facts)}


def cached(by_node: dict[int, int], size: int = 10 * MIB) -> ModelCache:
    state = CacheState(Path("m.gguf"), size, sum(by_node.values()), by_node, 1, "8:1", 1)
    return ModelCache((state,), ())


# ---- engine ----


@pytest.mark.parametrize(
    ("level", "on_two", "on_one"),
    [(FULL, OK, OK), (DENSE_ONLY, WARN, WARN), (POLICY_ONLY, BAD, WARN), (UNKNOWN, WARN, WARN)],
)
def test_what_check_knows_of_the_engine_is_said_with_its_remedy(
    make_root: MakeRoot, tmp_path: Path, level: str, on_two: str, on_one: str
) -> None:
    reach = Reach(level, "for a reason", "do this")
    found = checks(facts_about(make_root(TWO), reach=reach))["engine"]
    assert (found.level, found.remedy) == (on_two, "do this")
    assert found.text.endswith(": for a reason") or level == FULL
    assert ("cannot be mirrored" in found.text) == (level == POLICY_ONLY)


def test_an_engine_that_cannot_be_mirrored_is_not_bad_where_there_is_one_node(
    make_root: MakeRoot,
) -> None:
    reach = Reach(POLICY_ONLY, "static")
    found = checks(facts_about(make_root(ONE), reach=reach))["engine"]
    assert found.level == WARN
    assert found.remedy == "numamirror check -- COMMAND shows what was looked at"


# ---- memory ----


def test_copies_that_fit_are_counted_and_added_up(make_root: MakeRoot) -> None:
    found = checks(facts_about(make_root(TWO), 10 * GIB))
    assert found["memory"].level == OK
    assert found["memory"].text == (
        "2 copies need 20 GiB: they fit, with 30 GiB free on node 0, 30 GiB on node 1"
    )
    assert found["model"].level == OK and "10 GiB" in found["model"].text


def test_a_node_that_is_too_full_is_named_with_its_numbers(make_root: MakeRoot) -> None:
    nodes = {**TWO, 1: {"cpus": "8-15", "mem_mib": 65536, "free_mib": 6144}}
    found = checks(facts_about(make_root(nodes), 10 * GIB))["memory"]
    assert found.level == WARN
    assert found.text == "copies do not fit: node 1 needs 10 GiB and has 4 GiB"
    assert "numamirror plan" in found.remedy


def test_one_copy_per_socket_is_proposed_where_that_fits(make_root: MakeRoot) -> None:
    nodes = {n: {"cpus": f"{4 * n}-{4 * n + 3}", "mem_mib": 65536} for n in range(4)}
    root = make_root(nodes, packages={"0-7": 0, "8-15": 1})
    found = checks(facts_about(root, 40 * GIB))["memory"]
    assert found.level == WARN
    assert "--per socket" in found.remedy


@pytest.mark.parametrize(("gib", "level"), [(10, OK), (100, BAD)])
def test_a_model_larger_than_the_only_node_is_bad(
    make_root: MakeRoot, gib: int, level: str
) -> None:
    found = checks(facts_about(make_root(ONE), gib * GIB))["memory"]
    assert found.level == level and f"needs {gib} GiB" in found.text


# ---- locked memory ----


def test_n03_locked_memory_is_summed_over_the_copies(make_root: MakeRoot, shared_dir: Path) -> None:
    wanted = case(shared_dir, "N03")
    facts = facts_about(
        make_root(TWO),
        int(str(wanted["need_bytes"])),
        words=["--mlock"],
        settings=Settings(lock_limit=int(str(wanted["memlock_bytes"]))),
    )
    found = checks(facts)["memlock"]
    assert found.level == BAD
    assert found.text == "need 957 MiB of locked memory for 2 copies, limit 64 KiB"
    assert "LimitMEMLOCK" in found.remedy and "ulimit -l" in found.remedy


@pytest.mark.parametrize(
    ("settings", "words", "text"),
    [
        (Settings(lock_limit=65536), [], "limit 64 KiB; without --mlock nothing is locked"),
        (Settings(lock_limit=UNLIMITED), ["--mlock"], "no limit"),
        (Settings(lock_limit=4 * GIB), ["--mlock"], "limit 4 GiB is enough for --mlock"),
    ],
)
def test_a_limit_that_does_no_harm_is_ok(
    make_root: MakeRoot, settings: Settings, words: list[str], text: str
) -> None:
    found = checks(facts_about(make_root(TWO), GIB, words=words, settings=settings))["memlock"]
    assert (found.level, found.text) == (OK, text)


# ---- model ----


def test_a_model_whose_download_broke_off_is_bad(make_root: MakeRoot) -> None:
    """Its header is whole: all else can be said of it, and no engine will start with it."""
    facts = facts_about(make_root(TWO))
    begun = replace(model_of(10 * GIB), missing=6 * GIB)
    weighed = estimate(Request(begun, facts.machine, parse_engine_args(["engine"])))
    assert facts.subject is not None
    subject = replace(facts.subject, estimate=weighed)
    found = checks(replace(facts, subject=subject))["model"]
    assert found.level == BAD
    assert found.text == "only 4 of 10 GiB are in its files: its download is not complete"


# ---- page cache ----


def test_a_model_cached_on_the_wrong_node_is_warmed_at_home(make_root: MakeRoot) -> None:
    cache = cached({0: 4 * MIB, 1: 6 * MIB})
    found = checks(facts_about(make_root(TWO), GIB, cache=cache))["page cache"]
    assert found.level == WARN
    assert "10 MiB of the model are cached, 40 % on node 0, 60 % on node 1" in found.text
    assert found.remedy == "numamirror cache m.gguf --warm 0"


@pytest.mark.parametrize("by_node", [{}, {0: 10 * MIB}, {0: 9728 * 1024, 1: 256 * 1024}])
def test_a_model_cached_at_home_or_not_at_all_is_ok(
    make_root: MakeRoot, by_node: dict[int, int]
) -> None:
    facts = facts_about(make_root(TWO), GIB, cache=cached(by_node))
    assert checks(facts)["page cache"].level == OK


# ---- threads ----


@pytest.mark.parametrize(
    ("threads", "level", "remedy"),
    [(None, OK, ""), (8, OK, ""), (12, WARN, "-t 8"), (16, WARN, "-t 8"), (17, BAD, "-t 8")],
)
def test_threads_are_held_against_physical_cores(
    make_root: MakeRoot, threads: int | None, level: str, remedy: str
) -> None:
    nodes = {0: {"cpus": "0-3,8-11"}, 1: {"cpus": "4-7,12-15"}}
    words = [] if threads is None else ["-t", str(threads)]
    facts = facts_about(make_root(nodes, smt_offset=8), words=words)
    found = checks(facts)["threads"]
    assert (found.level, found.remedy) == (level, remedy)


def test_only_allowed_cores_count(make_root: MakeRoot) -> None:
    status = {"Cpus_allowed_list": "0-3", "Mems_allowed_list": "0-1"}
    facts = facts_about(make_root(TWO, status=status), words=["-t", "8"])
    assert checks(facts)["threads"].level == BAD
