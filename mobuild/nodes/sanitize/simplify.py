"""Child process that runs onnxsim: `python -m mobuild.nodes.sanitize.simplify MODEL OUT OPTIONS`."""

from __future__ import annotations

import json
import sys
from pathlib import Path


def main(source: str, out: str, options: str) -> None:
    # onnxsim imports torch when it is there, for a bridge that is not used here; it costs 2 s.
    sys.modules["torch"] = None  # type: ignore[assignment]
    import onnxsim

    from mobuild import onnxmodel

    model, holds = onnxsim.simplify(source, **json.loads(options))
    if not holds:
        raise SystemExit("its own check of the result fails")
    onnxmodel.save(model, Path(out))


if __name__ == "__main__":
    main(*sys.argv[1:])
