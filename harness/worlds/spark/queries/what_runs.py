"""Whether what a driver says that it runs on is what it was to run on."""

from __future__ import annotations

from typing import Final

from ....core.errors import OwnFailure, Unsupported
from ....install.spark_choice import chosen_python, chosen_version
from ..control.run_messages import SparkRuns

_HERE: Final = (
    "as its interpreter has it: something else comes first where drivers import it from; take that out of PYTHONPATH"
)
_IN_AN_IMAGE: Final = "as this machine has it: build the image again with that, or install here what the image has"


def check_what_runs(who: str, said: SparkRuns, spark: str, here: bool) -> None:
    """`spark` is what the query names. `here`: on an interpreter of this machine, and not on that of an image, which
    has the same packages, and of Python the same line.

    Raises OwnFailure for another Spark, and Unsupported for another Python or package: of two that can be imported,
    what comes first decides, and that is the user's, as an image of their own is.
    """
    wanted = chosen_version(spark)
    if said.version != wanted:
        raise OwnFailure(f"{who} runs Spark {said.version}, and is to run Spark {wanted}")
    python = chosen_python(spark)
    for name in sorted(python.keys() | said.python.keys()):
        one, other = said.python.get(name, "none"), python.get(name, "none")
        if name == "python" and not here:
            one, other = (".".join(number.split(".")[:2]) for number in (one, other))
        if one != other:
            mend = _HERE if here else _IN_AN_IMAGE
            raise Unsupported(f"{who} runs on {name} {one}, and is to run on {name} {other}, {mend}")
