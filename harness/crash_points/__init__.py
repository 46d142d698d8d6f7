"""Where the code of others can be held and killed: inside Spark, in the user's Python, at files, at stores outside."""
