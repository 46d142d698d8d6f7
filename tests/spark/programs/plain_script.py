"""A script as people write them for plain PySpark, which knows nothing of streamproof: a line for each thing that it
relies on, and whether it had it.

It can be handed over as `plain_script:counted`; `python plain_script.py FOLDER` runs the same by itself.
"""

import json
import os
import sys
import threading
from pathlib import Path

from pyspark import SparkContext
from pyspark.sql import SparkSession
from pyspark.sql import functions as f
from pyspark.sql.datasource import DataSource, DataSourceStreamWriter, WriterCommitMessage

spark = SparkSession.builder.appName("plain").config("plain.setting", "41").getOrCreate()
spark.conf.set("plain.setting", "42")

with open("settings.json") as file:
    GREETING = json.load(file)["greeting"]
LONG_ENOUGH = f.length("value") > 0
DOUBLED = f.udf(lambda text: text * 2, "string")
ARGUMENTS = len(sys.argv)

passed = spark.sparkContext.accumulator(0)
known = spark.sparkContext.broadcast({"greeting": GREETING})


def helper(text):
    return f"{known.value['greeting']} {text}"


class Files(DataSource):
    """A sink: what it is given, in a file for each batch."""

    @classmethod
    def name(cls):
        return "plain_files"

    def schema(self):
        return "value string"

    def streamWriter(self, schema, overwrite):
        return Writer(self.options["path"])


class Writer(DataSourceStreamWriter):
    def __init__(self, path):
        self.path = path

    def write(self, rows):
        return Given([row.value for row in rows])

    def commit(self, messages, batch):
        values = sorted(value for message in messages if message for value in message.values)
        os.makedirs(self.path, exist_ok=True)
        with open(f"{self.path}/{batch}.json", "w") as written:
            json.dump(values, written)

    def abort(self, messages, batch):
        pass


class Given(WriterCommitMessage):
    def __init__(self, values):
        self.values = values


def relied_on(folder, where, lines):
    """Note which lines there were, and what went wrong with each."""
    Path(folder).mkdir(parents=True, exist_ok=True)
    said = []
    for name, check in lines.items():
        try:
            found = "yes" if check() else "no"
        except Exception as error:
            found = f"{type(error).__name__}: {error}".splitlines()[0]
        said.append({"where": where, "line": name, "found": found})
    text = "".join(json.dumps(line) + "\n" for line in said)
    (Path(folder) / f"{where}.json").write_text(text)


IN_TRANSFORM = {}
RUNS = set()


def transform(lines):
    lines = lines.where(LONG_ENOUGH)
    active = SparkSession.getActiveSession()
    active.udf.register("shouted", str.upper)
    lines.createOrReplaceTempView("lines")
    by_sql = spark.sql("SELECT value, shouted(value) AS shouted FROM lines")
    IN_TRANSFORM.update(
        {
            "getActiveSession() is the script's": lambda: active is spark,
            "builder.getOrCreate() is the script's": lambda: SparkSession.builder.getOrCreate() is spark,
            "SparkContext.getOrCreate() is the session's": lambda: SparkContext.getOrCreate() is spark.sparkContext,
            "the frame's session is the script's": lambda: lines.sparkSession is spark,
            "a setting of the builder, and of conf": lambda: spark.conf.get("plain.setting") == "42",
            "catalog knows temporary views": lambda: spark.catalog.tableExists("lines"),
            "catalog knows functions": lambda: spark.catalog.functionExists("shouted"),
            "the working folder": lambda: json.loads(Path("settings.json").read_text())["greeting"] == "hello",
            "sys.argv has no arguments of others": lambda: ARGUMENTS == len(sys.argv) <= 2,
        }
    )
    return by_sql.select("value", "shouted", DOUBLED("value").alias("doubled"), f.udf(helper)("value").alias("said"))


def batch_into(folder):
    def into_files(frame, number):
        if number:
            return
        session, before = frame.sparkSession, passed.value
        RUNS.add(folder)
        rows = frame.collect()
        frame.createOrReplaceTempView("this_batch")
        frame.foreach(lambda row: passed.add(1))
        threads = []
        thread = threading.Thread(target=lambda: threads.append(spark.range(3).count()))
        thread.start()
        thread.join()
        frame.select("value").write.mode("overwrite").saveAsTable("kept")
        other = spark.newSession()
        other.conf.set("plain.setting", "43")
        lines = {
            **IN_TRANSFORM,
            "udf.register, in SQL": lambda: rows and all(row.shouted == row.value.upper() for row in rows),
            "a udf made at import": lambda: all(row.doubled == row.value * 2 for row in rows),
            "a broadcast, and a function of the script": lambda: rows[0].said.startswith("hello "),
            "an accumulator": lambda: passed.value == before + len(rows),
            "a temporary view of the batch": lambda: (
                session.sql("SELECT count(*) FROM this_batch").first()[0] == len(rows)
            ),
            "a setting of the session, in a batch": lambda: session.conf.get("plain.setting") == "42",
            "getActiveSession() in a batch": lambda: SparkSession.getActiveSession() is spark,
            "a thread of its own": lambda: threads == [3],
            "a table saved by its name": lambda: spark.table("kept").count() == len(rows),
            "newSession() has settings of its own": lambda: spark.conf.get("plain.setting") == "42",
            f"an application of its own, {spark.sparkContext.applicationId}": lambda: (
                spark.sparkContext.applicationId == spark.conf.get("spark.app.id")
            ),
            f"a beginning of its own, {spark.sparkContext.startTime}": lambda: (
                str(spark.sparkContext.startTime) == spark.conf.get("spark.app.startTime")
            ),
            "memory that no other run has": lambda: len(RUNS) == 1,
            "an RDD": lambda: spark.sparkContext.parallelize([1, 2, 3]).map(lambda n: n * 2).sum() == 12,
        }
        relied_on(folder, "batch", lines)

    return into_files


def stream_into(source, path):
    """A stream into a Python data source, to its end. Returns what came of it."""
    Path(source).mkdir(parents=True, exist_ok=True)
    (Path(source) / "a.txt").write_text("x\ny\n")
    spark.dataSource.register(Files)
    stream = (
        spark.readStream.text(str(source))
        .writeStream.format("plain_files")
        .option("path", str(path))
        .option("checkpointLocation", f"{path}.checkpoint")
        .trigger(availableNow=True)
        .start()
    )
    stream.awaitTermination()
    return json.loads((Path(path) / "0.json").read_text())


def write(rows, folders):
    return rows.writeStream.foreachBatch(batch_into(folders.sink / "lines"))


def read(session, folders):
    aside = folders.sink / "aside"
    lines = {
        "read is given the script's session": lambda: session is spark,
        "a Python data source as a sink": lambda: stream_into(aside / "in", aside / "out") == ["x", "y"],
    }
    relied_on(folders.sink / "lines", "read", lines)
    return session.read.json(str(folders.sink / "lines"))


def read_what_every_run_has(session, folders):
    """Two runs are no one application, and began at two times."""
    return read(session, folders).where("line NOT LIKE '% of its own, %'")


def counted():
    from streamproof import Query

    return Query(transform, "plain-script", write=write, read=read, batch_events=20)


if __name__ == "__main__":
    home = Path(sys.argv[1])
    (home / "in").mkdir(parents=True)
    (home / "in" / "a.txt").write_text("some\nwords\n")
    output = transform(spark.readStream.text(str(home / "in")))
    stream = output.writeStream.foreachBatch(batch_into(home / "lines")).trigger(availableNow=True)
    stream.option("checkpointLocation", str(home / "checkpoint")).start().awaitTermination()
    relied_on(home / "lines", "read", {"a Python data source as a sink": lambda: stream_into(home / "t", home / "out")})
