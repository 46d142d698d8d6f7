"""What the driver of a search on Spark takes for the loss of its JVM."""

import socket

import pytest
from py4j.protocol import Py4JNetworkError
from pyspark.serializers import CPickleSerializer
from pyspark.util import _load_from_socket

from streamproof.harness.exploration.spark_driver import unreachable


def test_an_answer_that_nobody_serves_any_more_says_that_the_jvm_is_lost() -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        port = closed.getsockname()[1]
    with pytest.raises(UnboundLocalError) as raised, _load_from_socket((port, "secret"), CPickleSerializer()):
        pass
    assert unreachable(raised.value)


def test_a_connection_that_breaks_says_so_too() -> None:
    assert unreachable(Py4JNetworkError("Error while receiving"))
    assert unreachable(ConnectionResetError())


def test_what_fails_in_the_driver_itself_does_not() -> None:
    assert not unreachable(UnboundLocalError("x"))
    assert not unreachable(TypeError("cannot pickle"))
