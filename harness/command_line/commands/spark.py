"""`streamproof spark`: environments with other versions of Spark."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import closing, suppress
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from ...core.errors import ExitStatus, StreamproofError
from ..options import Json
from ..output import complain, print_json, show

if TYPE_CHECKING:
    from ...install.spark_environments import SparkEnvironment

spark_app = typer.Typer(
    name="spark",
    help="Versions of Spark that queries can be certified on, each in an environment in your cache folder.",
    no_args_is_help=True,
)

Version = Annotated[str, typer.Argument(metavar="VERSION", help="Of pyspark, as in 4.1.3.", show_default=False)]


@spark_app.command("add")
def add_command(
    version: Version,
    archive: Annotated[
        bool, typer.Option(help="Also make an archive of its classes, with which its processes start in half the time.")
    ] = True,
    as_json: Json = False,
) -> ExitStatus:
    """Make an environment with this pyspark: half a gigabyte to download, and some minutes once."""
    from ...crash_points.inside_spark.agent import fetch_agent
    from ...crash_points.inside_spark.checking import check_rules
    from ...crash_points.inside_spark.versions import supported
    from ...install.event_source import source_jar
    from ...install.machine import find_java
    from ...install.spark_choice import chosen_spark
    from ...install.spark_environments import add_environment
    from ...worlds.embedded.build_class_archive import build_archive

    known = supported(version)
    java = find_java()
    complain(f"making an environment with pyspark {version}")
    added = add_environment(version)
    spark = chosen_spark(str(added.python))
    # What a query would else have to wait for, and what a run would else find wrong.
    if known.source_in_java:
        source_jar(spark, java)
    check_rules(known, fetch_agent(), spark=spark)
    if archive:
        complain("making an archive of its classes")
        build_archive(spark)
    if as_json:
        print_json(_document(added))
    else:
        show(_told(added, known.lacks))
    return ExitStatus.HOLDS


@spark_app.command("list")
def list_versions_command(as_json: Json = False) -> ExitStatus:
    """Show which there are."""
    from ...crash_points.inside_spark.versions import SUPPORTED
    from ...install.spark_choice import chosen_version
    from ...install.spark_environments import environments

    own, found = chosen_version(), environments()
    images = _images({own: sys.executable, **{one.version: str(one.python) for one in found if one.whole}})
    if as_json:
        document = {"own": own, "lines": sorted(SUPPORTED), "environments": list(map(_document, found))}
        print_json({**document, "images": images})
        return ExitStatus.HOLDS
    show(_listed(own, found, sorted(SUPPORTED), images))
    return ExitStatus.HOLDS


@spark_app.command("remove")
def remove_command(version: Version) -> ExitStatus:
    """Remove one."""
    from ...install.class_archive import remove_archives
    from ...install.spark_environments import remove_environment

    remove_environment(version)
    remove_archives(lambda archive, home: not home.exists())
    return ExitStatus.HOLDS


def _document(found: SparkEnvironment) -> dict[str, object]:
    return {"version": found.version, "python": str(found.python), "whole": found.whole}


def _told(added: SparkEnvironment, lacks: tuple[str, ...]) -> Iterator[Text]:
    yield Text(f"  pyspark {added.version}, {added.python}")
    yield Text(f"  use it:               streamproof certify MODULE:ATTRIBUTE --spark {added.version}")
    yield Text(f"  what a query imports: {added.python} -m pip install ...")
    if lacks:
        yield Text(f"  it has not:           {'; '.join(lacks)}")


def _images(pythons: Mapping[str, str]) -> dict[str, str]:
    """Of the versions that these interpreters have, those that containers have, too, and the name of the image."""
    try:
        from ...worlds.docker.engine import engine_or_none
        from ...worlds.docker.image import built_with
    except ImportError:
        return {}
    engine = engine_or_none()
    if engine is None:
        return {}
    found = {}
    with closing(engine):
        for version, python in pythons.items():
            # Of what cannot be asked for its packages there is none.
            with suppress(StreamproofError):
                if name := built_with(engine, python):
                    found[version] = name
    return found


def _listed(own: str, found: list[SparkEnvironment], lines: list[str], images: Mapping[str, str]) -> Iterator[Text]:
    def in_containers(version: str) -> str:
        return f", in containers by {images[version]}" if version in images else ""

    yield Text(f"  {own:<8} streamproof's own{in_containers(own)}")
    for one in found:
        said = in_containers(one.version) if one.whole else ", not whole: add it again, or remove it"
        yield Text(f"  {one.version:<8} {one.python}{said}")
    yield Text(f"  known: Spark {', '.join(lines)}; streamproof spark add VERSION makes an environment")
