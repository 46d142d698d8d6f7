"""The reference schemes, one file each, and the deliberately broken mutants."""
