"""pytest's side of streamproof: a fixture that certifies queries, its options, and what the session says of them.

    def test_sessions_survive_any_crash(streamproof):
        streamproof.certify(Query(sessionize), claims=[exactly_once()])

pytest loads this module wherever streamproof is installed, so it imports nothing of it until a test asks for it.

Where tests run in several processes (pytest-xdist), each has a cluster of its own, which it starts when it first needs
it and keeps until its end, and they certify one after the other: two campaigns at once would take the time of each
other's budgets. `--dist loadfile` keeps the tests of one file in one process, and so on one cluster.

Where a test is run again in the same session, as pytest-rerunfailures does, what it has seen violated stays so, and it
fails again without another campaign: that a second one sees nothing takes no violation back. What came to no verdict
is tried anew.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

if TYPE_CHECKING:
    from .harness.certifying.budget import Budget
    from .harness.certifying.campaign import Certified
    from .harness.certifying.planning import CrashPlan
    from .harness.certifying.subjects import QuerySubject
    from .harness.contracts.cluster import Cluster
    from .harness.core.guarantees import Guarantee
    from .harness.core.workload import Workload

CLUSTERS: Final = ("embedded", "docker")
_SUBJECT, _VERDICTS, _COVERAGE, _FOLDER, _PAGE, _VIOLATION, _REPLAYED = (
    f"streamproof.{name}" for name in ("subject", "verdicts", "coverage", "folder", "page", "violation", "replayed")
)
"""The properties of a test that certifies, in this order for each certificate; that of the run that refutes a claim
only where there is one. `_REPLAYED` is the page of a schedule that was not survived, or came to no verdict."""
_LABELS: Final = {
    _COVERAGE: "covered",
    _FOLDER: "certificate",
    _PAGE: "page",
    _VIOLATION: "violation",
    _REPLAYED: "replayed",
}
_SAID: Final = {_SUBJECT, _VERDICTS, *_LABELS}
_UNITS: Final = {"s": 1 / 60, "m": 1.0, "min": 1.0, "h": 60.0}
_PART = re.compile(r"(\d+(?:\.\d+)?)\s*(s|m|min|h|runs?|kills?)")


@dataclass(frozen=True)
class _Options:
    cluster: str
    budget: Mapping[str, Any]
    """As Budget takes it."""
    asked: bool
    """Whether the budget is of the command line, which outranks a test's own."""
    seed: int
    folder: Path
    worker: str
    """The name of this process among those of a distributed session."""


_OPTIONS = pytest.StashKey[_Options]()
_VIOLATED = pytest.StashKey[dict[str, tuple["Streamproof", str]]]()
"""Of a test: what it has seen violated -> in which of its runs, by the fixture that it had, and what was said."""


# Options


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("streamproof", "certifying queries with streamproof")
    for name, metavar, text in (
        ("cluster", "NAME", f"where queries are certified: {' or '.join(CLUSTERS)} (default: embedded)"),
        (
            "budget",
            "BUDGET",
            "what each certificate may cost: 5m, 90s, '200 runs', '20 kills' (the size of the random sample), or "
            "several of them, with commas (default: 10m, 10 kills)",
        ),
        ("seed", "N", "what campaigns draw from (default: 7)"),
        ("folder", "PATH", "where certificates go (default: certificates, beside pytest's configuration)"),
    ):
        group.addoption(f"--streamproof-{name}", metavar=metavar, default=None, help=text)
        parser.addini(f"streamproof_{name}", text, default="")


def pytest_configure(config: pytest.Config) -> None:
    """Raises UsageError for an option that cannot be used."""
    worker = getattr(config, "workerinput", {}).get("workerid", "")
    config.stash[_OPTIONS] = _options(config, worker)
    if not worker:
        config.pluginmanager.register(_Summary(), "streamproof summary")


def _options(config: pytest.Config, worker: str) -> _Options:
    cluster = _given(config, "cluster") or CLUSTERS[0]
    if cluster not in CLUSTERS:
        raise pytest.UsageError(f"streamproof: there is no cluster {cluster!r}; there are: {', '.join(CLUSTERS)}")
    seed = _given(config, "seed") or "7"
    if not re.fullmatch(r"\d+", seed):
        raise pytest.UsageError(f"streamproof: the seed {seed!r} must be a whole number that is not negative")
    asked = config.getoption("--streamproof-folder")
    folder = Path(config.invocation_params.dir, asked) if asked else None
    return _Options(
        cluster=cluster,
        budget=_budget(_given(config, "budget")),
        asked=config.getoption("--streamproof-budget") is not None,
        seed=int(seed),
        folder=folder or Path(config.rootpath, str(config.getini("streamproof_folder")) or "certificates"),
        worker=worker,
    )


def _given(config: pytest.Config, name: str) -> str:
    """By the command line, else by the configuration; empty when by neither."""
    asked = config.getoption(f"--streamproof-{name}")
    return str(config.getini(f"streamproof_{name}") if asked is None else asked).strip()


def _budget(text: str) -> Mapping[str, Any]:
    found: dict[str, Any] = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        matched = _PART.fullmatch(part)
        unit = matched[2].rstrip("s") or "s" if matched else ""
        name = {"run": "runs", "kill": "kills"}.get(unit, "minutes")
        whole = matched is not None and (name == "minutes" or matched[1].isdigit())
        if matched is None or not whole or name in found or (float(matched[1]) == 0 and name != "kills"):
            raise pytest.UsageError(
                f"streamproof: the budget {text!r} is none: write a time (90s, 5m, 1h), a number of runs (200 runs), a "
                "number of kills (20 kills), or several of them with commas between"
            )
        found[name] = float(matched[1]) * _UNITS[unit] if name == "minutes" else int(matched[1])
    return found


# Fixtures


@pytest.fixture(scope="session")
def streamproof_cluster(pytestconfig: pytest.Config) -> Iterator[Cluster]:
    """The cluster that the tests of this process certify on, kept up between them. Define a fixture of this name, with
    the scope of the session, to bring one of your own."""
    from .harness.command_line.clusters import make_spark_cluster, reap_all
    from .harness.core.errors import StreamproofError

    options = pytestconfig.stash[_OPTIONS]
    cluster = make_spark_cluster(options.cluster)
    # What killed runs have left is in nobody's way where it cannot be ended.
    with suppress(StreamproofError):
        reap_all()
    with cluster.kept_warm(options.folder) as kept:
        yield kept


@pytest.fixture
def streamproof(request: pytest.FixtureRequest) -> Streamproof:
    """Certifies queries: `streamproof.certify(query, claims=[exactly_once()])`."""
    return Streamproof(request)


class Streamproof:
    """What the fixture is."""

    def __init__(self, request: pytest.FixtureRequest) -> None:
        self._request = request
        self._options = request.config.stash[_OPTIONS]

    def certify(
        self,
        query: Any,
        claims: Sequence[Guarantee] | None = None,
        faults: CrashPlan | None = None,
        *,
        workload: Workload | None = None,
        budget: Budget | None = None,
        allow_unknown: bool = False,
    ) -> Certified:
        """Crash a query wherever `faults` says (at every crash point, unless told otherwise), and fail the test when it
        breaks a claim, or when that cannot be known, unless `allow_unknown`.

        `query` is a Query, a function of a DataFrame (then in append mode), a function without arguments that returns a
        Query, or an object that has one, as in `streamproof.scenarios.subjects`. Left out, the claims are those that
        the Query states, and the input is lines of a text. `budget` holds where the command line gives none.
        """
        __tracebackhide__ = True
        from .harness.certifying.subjects import as_subject
        from .harness.core.errors import ExitStatus, StreamproofError
        from .harness.core.proper import switch

        mistake = ""
        try:
            switch(allow_unknown, "allow_unknown")
            subject = as_subject(query)
            claimed = subject.claims if claims is None else tuple(claims)
            known = f"certify {subject.query.name}: {', '.join(map(str, claimed))}"
            self._fail_if_violated_before(known)
            certified = self._certified(subject, claimed, faults, workload, budget)
        except StreamproofError as error:
            mistake = str(error)
        if mistake:
            pytest.fail(f"streamproof: {mistake}", pytrace=False)
        self._record(certified)
        failure = _failure(certified, allow_unknown)
        if certified.certificate.exit_status is ExitStatus.VIOLATED:
            self._stays_violated(known, failure)
        if failure:
            pytest.fail(failure, pytrace=False)
        self._request.node.add_report_section("call", "streamproof", _page(certified))
        return certified

    def survives(self, file: str | Path, query: Any = None, *, workload: Workload | None = None) -> None:
        """A regression test in one line: the schedule that `certify` has saved (counterexample.json, in a certificate's
        folder) breaks the claim no more. It fails when the claim is violated, and when that cannot be known.

        `query` is what was certified, as `certify` takes it, and `workload` what it was fed, where it was told. Where
        the query can be imported, the file may say it itself.
        """
        __tracebackhide__ = True
        from .harness.certifying.folders import new_folder, one_at_a_time
        from .harness.certifying.replaying import replay_file, status_of
        from .harness.certifying.telling import view_of_saved
        from .harness.command_line.drawing import draw_folder
        from .harness.contracts.registry import Registry
        from .harness.core.errors import ExitStatus, StreamproofError
        from .harness.reporting.screen import saved_screen

        known = f"survives {file}"
        self._fail_if_violated_before(known)
        options = self._options
        registry = Registry()
        failure = ""
        folder = new_folder("replay", options.folder, options.worker)
        try:
            with one_at_a_time(options.folder):
                cluster = self._request.getfixturevalue("streamproof_cluster")
                judged = replay_file(Path(file), cluster, registry, folder, query, workload)
        except StreamproofError as error:
            failure = f"streamproof: {error}"
        else:
            status = status_of(judged)
            if status is not ExitStatus.HOLDS:
                said = "\n".join(line.plain for line in saved_screen(view_of_saved(judged, folder)))
                came = "is not survived" if status is ExitStatus.VIOLATED else "came to no verdict"
                failure = f"{file} {came}\n\n{said}"
                self._link(_REPLAYED, lambda: draw_folder(folder, registry, None, None))
                if status is ExitStatus.VIOLATED:
                    self._stays_violated(known, failure)
        if failure:
            pytest.fail(failure, pytrace=False)

    def _stays_violated(self, known: str, failure: str) -> None:
        self._request.node.stash.setdefault(_VIOLATED, {})[known] = self, failure

    def _fail_if_violated_before(self, known: str) -> None:
        """In an earlier run of the same test. What it has seen in this one, it goes on from as it likes."""
        __tracebackhide__ = True
        by, failure = self._request.node.stash.get(_VIOLATED, {}).get(known, (self, ""))
        if by is not self:
            again = "That was seen when this test ran before in this session; to run it again takes no violation back."
            pytest.fail(f"{failure}\n\n{again}", pytrace=False)

    def _certified(
        self,
        subject: QuerySubject,
        claimed: Sequence[Guarantee],
        faults: CrashPlan | None,
        workload: Workload | None,
        budget: Budget | None,
    ) -> Certified:
        from .harness.certifying import campaign
        from .harness.certifying.budget import Budget
        from .harness.certifying.folders import new_folder, one_at_a_time
        from .harness.certifying.planning import every_crash_point
        from .harness.certifying.subjects import usual_workload
        from .harness.contracts.registry import Registry
        from .harness.core.errors import UserMistake

        options = self._options
        if not claimed:
            name = subject.query.name
            raise UserMistake(f"{name} claims nothing: say what it promises, as in claims=[exactly_once()]")
        if budget is None or options.asked:
            budget = Budget(**options.budget)
        fed = workload or subject.workload or usual_workload(subject.query)
        with one_at_a_time(options.folder):
            return campaign.certify(
                subject.query,
                claimed,
                every_crash_point() if faults is None else faults,
                workload=fed,
                cluster=self._request.getfixturevalue("streamproof_cluster"),
                registry=Registry(),
                budget=budget,
                seed=options.seed,
                folder=new_folder(subject.query.name, options.folder, options.worker),
            )

    def _record(self, certified: Certified) -> None:
        """For the summary, which in a distributed session another process writes, and for JUnit's file."""
        from .harness.certifying.certificate import LOOK
        from .harness.certifying.page import covered_said, in_short, subject_name
        from .harness.command_line.drawing import draw_violation
        from .harness.contracts.registry import Registry

        certificate = certified.certificate
        self._request.node.user_properties += [
            (_SUBJECT, subject_name(certificate)),
            (_VERDICTS, in_short(certificate)),
            (_COVERAGE, covered_said(certificate)),
            (_FOLDER, str(certified.folder)),
            (_PAGE, str(certified.folder / LOOK)),
        ]
        refuted = certificate.counterexample
        if refuted is not None:
            self._link(_VIOLATION, lambda: draw_violation(certified.folder, refuted.folder, Registry()))

    def _link(self, name: str, draw: Callable[[], Path]) -> None:
        """A page in the summary. What was judged stays judged, whatever becomes of its page."""
        from .harness.core.errors import StreamproofError

        try:
            said = str(draw())
        except StreamproofError as error:
            said = f"cannot be drawn: {error}"
        self._request.node.user_properties.append((name, said))


# What is said


def _failure(certified: Certified, allow_unknown: bool) -> str:
    """Empty when the test passes."""
    from .harness.certifying.page import in_short, subject_name
    from .harness.core.errors import ExitStatus

    certificate = certified.certificate
    status = certificate.exit_status
    if status is ExitStatus.HOLDS or (status is ExitStatus.UNKNOWN and allow_unknown):
        return ""
    said = f"{subject_name(certificate)}: {in_short(certificate)}\n\n{_page(certified)}"
    if status is ExitStatus.UNKNOWN:
        said += "\n\nWhat is not known has not been shown to hold; allow_unknown=True lets the test pass all the same."
    return said


def _page(certified: Certified) -> str:
    from .harness.certifying.telling import view_of_certificate
    from .harness.reporting.screen import certificate_screen

    view = view_of_certificate(certified.certificate, certified.folder)
    return "\n".join(line.plain for line in certificate_screen(view))


class _Summary:
    """What the tests of a session have certified, wherever they ran."""

    def __init__(self) -> None:
        self._said: dict[str, list[dict[str, str]]] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "teardown":
            found: list[dict[str, str]] = []
            for name, value in report.user_properties:
                if name in (_SUBJECT, _REPLAYED):
                    found.append({})
                if found and name in _SAID:
                    found[-1][name] = str(value)
            if found:
                self._said[report.nodeid] = found

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if not self._said:
            return
        terminalreporter.section("streamproof")
        for test, certificates in self._said.items():
            terminalreporter.line(test)
            for one in certificates:
                if _SUBJECT in one:
                    terminalreporter.line(f"  {one[_SUBJECT]}: {one[_VERDICTS]}")
                for name, label in _LABELS.items():
                    if name in one:
                        terminalreporter.line(f"    {label:<12} {one[name]}")
