"""Certificates that are kept in a folder: what the same code has made of the same campaign is taken from there, and
what was interrupted, or leaves something UNKNOWN, goes on, as by `certify --continue`. All else begins anew.

Whether it is the same says the folder's name, by a digest of every file that is installed as streamproof here; of the
versions of Python, of its packages and of Java; of what the query says of itself, in which are its Spark and the digest
of its code; and of its input, claims, crash plan and budget. A name has one certificate: another one replaces it.
"""

from __future__ import annotations

import glob
import hashlib
import shutil
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

import streamproof
from streamproof.harness.certifying.budget import Budget
from streamproof.harness.certifying.campaign import certify, go_on
from streamproof.harness.certifying.certificate import Certificate, check_files, is_certificate, read_certificate
from streamproof.harness.certifying.continuing import versions_here
from streamproof.harness.certifying.journal import is_under_way
from streamproof.harness.certifying.planning import CrashPlan
from streamproof.harness.command_line.leftovers import reap_silently
from streamproof.harness.contracts.cluster import Cluster
from streamproof.harness.contracts.query import Query
from streamproof.harness.contracts.registry import Registry
from streamproof.harness.core.errors import InvalidCertificate, NothingLeft, ScenarioChanged
from streamproof.harness.core.guarantees import Guarantee
from streamproof.harness.core.verdicts import Status
from streamproof.harness.core.workload import Workload
from streamproof.harness.install.machine import find_java
from streamproof.harness.recording.claims_and_faults import SavedClaim
from streamproof.harness.worlds.docker.cluster import DockerCluster
from streamproof.harness.worlds.embedded.cluster import EmbeddedCluster

LENGTH = 16
"""Of a digest in a name."""
DOCKER = DockerCluster.name


@dataclass(frozen=True)
class Campaign:
    query: Query
    claims: tuple[Guarantee, ...]
    workload: Workload
    faults: CrashPlan
    budget: Budget
    cluster: str = EmbeddedCluster.name
    """Where it kills for real, by its name."""


def certificate_of(campaign: Campaign, home: Path, name: str) -> Certificate:
    """The one that is kept, or else what the campaign comes to now. Raises as `certify` does: what it has tried by then
    is kept, too.
    """
    folder = home / f"{name}-{_digest(campaign)}"
    query, workload, budget = campaign.query, campaign.workload, campaign.budget
    cluster, registry = _cluster(campaign.cluster), Registry()
    reap_silently()
    try:
        if is_certificate(folder):
            if not is_under_way(folder) and (certificate := _decided(folder)) is not None:
                print(f"taken from {folder}", file=sys.stderr, flush=True)
                return certificate
            print(f"going on in {folder}", file=sys.stderr, flush=True)
            return go_on(
                folder, query, workload=workload, cluster=cluster, registry=registry, budget=budget
            ).certificate
    except NothingLeft as error:
        print(error, file=sys.stderr, flush=True)
        return read_certificate(folder)
    except (InvalidCertificate, ScenarioChanged) as error:
        print(f"begun anew: {error}", file=sys.stderr, flush=True)
    for earlier in home.glob(f"{glob.escape(name)}-{'[0-9a-f]' * LENGTH}"):
        shutil.rmtree(earlier)
    return certify(
        query,
        campaign.claims,
        campaign.faults,
        workload=workload,
        cluster=cluster,
        registry=registry,
        budget=budget,
        folder=folder,
    ).certificate


def _cluster(name: str) -> Cluster:
    return DockerCluster() if name == DOCKER else EmbeddedCluster()


def _decided(folder: Path) -> Certificate | None:
    """The certificate in the folder, where each of its verdicts is one: a machine that is too busy leaves it open."""
    certificate = read_certificate(folder)
    check_files(folder, certificate)
    return None if any(one.status is Status.UNKNOWN for one in certificate.verdicts) else certificate


def _digest(campaign: Campaign) -> str:
    claims = tuple(map(SavedClaim.of, campaign.claims))
    asked = (claims, campaign.faults, campaign.budget, campaign.cluster)
    return digest_of_work([campaign.query], campaign.workload, *asked)


def digest_of_work(queries: Sequence[Query], fed: Workload, *asked: object) -> str:
    """Of what is done with queries by the code that is installed here, on this machine. `asked` has what else it hangs
    on."""
    java = find_java().version
    same = (
        digest_of_files(Path(streamproof.__file__ or "").parent),
        [(versions_here(java, query), query.describe()) for query in queries],
        (fed.name, fed.events, fed.seed),
        *asked,
    )
    return hashlib.sha256(msgspec.json.encode(same, order="sorted")).hexdigest()[:LENGTH]


def digest_of_files(package: Path) -> str:
    """Of a package and those within it, whatever else lies beside them, as in a checkout."""
    sha = hashlib.sha256()
    for file in sorted(_files(package)):
        sha.update(file.relative_to(package).as_posix().encode() + b"\0" + hashlib.sha256(file.read_bytes()).digest())
    return sha.hexdigest()


def _files(package: Path) -> Iterator[Path]:
    yield from package.glob("*.py")
    for within in package.glob("*/__init__.py"):
        for file in within.parent.rglob("*"):
            if file.is_file() and file.suffix != ".pyc":
                yield file
