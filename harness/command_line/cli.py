"""The command line: `streamproof doctor | list | run | certify | upgrade | explore | replay | judge | report | spark |
reap`.

Every command ends in an `ExitStatus`. What a user did wrong is said in one message on stderr, without a traceback; of a
mistake of ours the traceback goes into a file. With `--json`, stdout carries one JSON document and nothing else.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Sequence
from typing import Annotated, NoReturn

import typer

from ..core.error_text import described_error
from ..core.errors import ExitStatus, StreamproofError, UsersCodeFailed
from .commands.certify import certify_command
from .commands.doctor import doctor_command
from .commands.explore import explore_command
from .commands.judge import judge_command
from .commands.list import list_command
from .commands.reap import reap_command
from .commands.replay import replay_command
from .commands.report import report_command
from .commands.run import run_command
from .commands.spark import spark_app
from .commands.upgrade import upgrade_command
from .ending import INTERRUPTED, Session, Terminated, complain_of_interruption, failed
from .output import print_text

TO_BEGIN = """To begin:
  streamproof doctor                        what this machine can run, and the command that adds the rest
  streamproof run word-count.passive-replication --cluster simulated --report
                                            a first run, judged, and drawn as a page: a second, and no Java
  streamproof explore word-count.gap        what breaks a scheme's claim, made small; replay and report take the file
  streamproof certify file-sink-by-listing --minutes 5
                                            a sink that loses nothing? on Spark; yours as module:attribute
"""
"""Of commands that run as they stand."""

app = typer.Typer(
    name="streamproof",
    help="Proves, or refutes, what a stream processor promises about failure.",
    epilog="Exit status: 0 all claims hold, 1 one is violated, 2 none is violated and one is unknown, "
    "3 a mistake in what was asked for, 4 a failure of streamproof itself.",
    context_settings={"help_option_names": ["-h", "--help"]},
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


def _print_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        print_text(f"streamproof {version('streamproof')}\n")
        raise typer.Exit()


@app.callback(invoke_without_command=True)
def _streamproof(
    context: typer.Context,
    version: Annotated[
        bool,
        typer.Option("--version", is_eager=True, callback=_print_version, help="Print the version and exit."),
    ] = False,
) -> None:
    """Proves, or refutes, what a stream processor promises about failure."""
    context.ensure_object(Session).commanded = True
    if context.invoked_subcommand is None:
        print_text(f"{context.get_help()}\n\n{TO_BEGIN}")
        # Nothing was asked for, so that nothing can be said to hold: a script that has lost its command must not pass.
        raise typer.Exit(ExitStatus.USER_MISTAKE)


# In the order in which the help shows them. A command imports what it needs when it is called, so that each starts
# without what only others need.
app.command("doctor")(doctor_command)
app.command("list")(list_command)
app.command("run")(run_command)
app.command("certify")(certify_command)
app.command("upgrade")(upgrade_command)
app.command("explore")(explore_command)
app.command("replay")(replay_command)
app.command("judge")(judge_command)
app.command("report")(report_command)
app.add_typer(spark_app, name="spark")
app.command("reap")(reap_command)


def run_command_line(arguments: Sequence[str]) -> int:
    """Run one command; its exit status."""
    session = Session()
    try:
        status = typer.main.get_command(app).main(
            list(arguments), prog_name="streamproof", standalone_mode=False, obj=session
        )
        if status == INTERRUPTED:
            complain_of_interruption(session)
        return int(status or 0)
    except (KeyboardInterrupt, typer.Abort):
        complain_of_interruption(session)
        return INTERRUPTED
    except StreamproofError as error:
        return failed(str(error), error, error.exit_status, session, arguments)
    except Terminated:
        raise
    except Exception as error:
        wrong_flag = getattr(error, "format_message", None)
        if wrong_flag is not None:
            return failed(_usage(error, wrong_flag()), error, ExitStatus.USER_MISTAKE, Session(), arguments)
        text = f"this is a mistake in streamproof: {type(error).__name__}: {error}"
        return failed(text, error, ExitStatus.OWN_FAILURE, session, arguments)
    except BaseException as error:
        if isinstance(error, SystemExit) and not session.commanded:
            # A shell's completion was asked for, and has been given.
            return error.code if isinstance(error.code, int) else 0
        # What is no Exception none of ours raises, such as a task of asyncio's that is cancelled. Else the status would
        # be what somebody's code says, and 0 would pass for a claim that holds, or Python's own, 1, which is VIOLATED.
        mistake = UsersCodeFailed(f"code that was called would end the process: {described_error(error)}")
        mistake.__cause__ = error
        return failed(str(mistake), mistake, mistake.exit_status, session, arguments)


def _usage(error: Exception, message: str) -> str:
    context = getattr(error, "ctx", None)
    return message if context is None else f"{message}\n{context.get_usage()}\nMore: {context.command_path} --help"


def main() -> NoReturn:
    """The entry point."""
    for stream in (sys.stdout, sys.stderr):
        # A terminal that cannot show a character shows another one, and no run ends because of it.
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")
    signal.signal(signal.SIGTERM, _terminate)
    sys.exit(run_command_line(sys.argv[1:]))


def _terminate(number: int, frame: object) -> NoReturn:
    """Leave by way of every context that is open, so that what was started is ended."""
    raise Terminated(128 + number)
