"""A driver that makes a folder, and removes it, again and again; or once. Arguments: the folder, `again` or `once`."""

import os
import sys


def main(folder: str, times: str) -> None:
    while True:
        os.mkdir(folder)
        if times == "once":
            return
        os.rmdir(folder)


if __name__ == "__main__":
    main(*sys.argv[1:])
