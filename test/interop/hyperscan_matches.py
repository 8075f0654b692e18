"""What Hyperscan matches in the files of a folder and below. Links are not followed.

Takes an expression and a folder. Prints {"files": …, "bytes": …, "matches": [{"path": …, "text": …}, …]} as JSON.
A text is decoded as Latin-1, so that it has each byte.
"""

import json
import os
import sys

import hyperscan


def main():
    expression, folder = sys.argv[1:]
    database = hyperscan.Database(mode=hyperscan.HS_MODE_BLOCK)
    database.compile(
        expressions=[expression.encode()], ids=[0], elements=1, flags=[hyperscan.HS_FLAG_SOM_LEFTMOST]
    )
    seen = {"files": 0, "bytes": 0, "matches": []}
    for inside, _, names in os.walk(folder):
        for path in sorted(os.path.join(inside, name) for name in names):
            if os.path.islink(path) or not os.path.isfile(path):
                continue
            with open(path, "rb") as file:
                data = file.read()
            seen["files"] += 1
            seen["bytes"] += len(data)
            if data:
                database.scan(data, match_event_handler=collect(seen["matches"], path, data))
    json.dump(seen, sys.stdout)


def collect(matches, path, data):
    def on_match(_, start, end, _flags, _context):
        matches.append({"path": path, "text": data[start:end].decode("latin-1")})

    return on_match


main()
