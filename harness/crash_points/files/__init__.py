"""The file layer: folders of a run behind a file system of the harness's own, which journals every operation."""
