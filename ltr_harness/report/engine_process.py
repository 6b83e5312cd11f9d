"""What the chart engine's process runs: one JSON line in, one out, until nobody can ask any more."""

from __future__ import annotations

import base64
import json
import os
import sys
from collections.abc import Mapping
from typing import Any


def answer(request: Mapping[str, Any], version: str) -> bytes:
    """The picture or script asked for.

    Shapes: `request` (svg, png or javascript).
    """
    import vl_convert

    if request["kind"] == "javascript":
        script: str = vl_convert.javascript_bundle(vl_version=version)  # type: ignore[call-arg]  # its stub asks for a snippet
        return script.encode()
    if request["kind"] == "png":
        pixels: bytes = vl_convert.vegalite_to_png(request["spec"], vl_version=version, scale=2)
        return pixels
    text: str = vl_convert.vegalite_to_svg(request["spec"], vl_version=version)
    return text.encode()


def main(version: str) -> None:
    """Say that it is ready, then serve standard input until it ends."""
    # Whatever the engine prints must not stand between the answers.
    answers, sys.stdout = sys.stdout, sys.stderr

    def tell(reply: Mapping[str, str]) -> None:
        try:
            print(json.dumps(reply), file=answers, flush=True)
        except BrokenPipeError:  # who asked was killed
            os._exit(0)

    try:
        # everything is loaded by this
        answer({"kind": "svg", "spec": {"mark": "point", "data": {"values": []}}}, version)
    except Exception as problem:
        tell({"error": f"the chart engine does not work: {problem}"})
        return
    tell({})
    for line in sys.stdin:
        try:
            tell({"done": base64.b64encode(answer(json.loads(line), version)).decode()})
        except ValueError as problem:
            tell({"error": str(problem)})


if __name__ == "__main__":
    main(sys.argv[1])
