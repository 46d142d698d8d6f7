"""The live view: the page of what a command does, on loopback, served by a process of its own."""
