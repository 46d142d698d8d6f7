"""What this machine offers Spark: a Java, jars, a toxiproxy, a class archive, and settings for the processes."""
