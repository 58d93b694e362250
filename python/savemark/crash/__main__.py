"""One crash test, in a process of its own: it forks, and its mounts are its own."""

from __future__ import annotations

import json
import sys

import savemark._engine as engine

if __name__ == "__main__":
    try:
        text = engine.crash(sys.argv[1])
    except engine.EngineError as error:
        fault = {"kind": error.kind, "message": error.message, "hint": error.hint}
        text = json.dumps({"error": fault})
    sys.stdout.write(text)
