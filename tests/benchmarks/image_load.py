"""The image of crepe_tiny under 32 clients and `--memory 512m`, in podman: no answer but 200 and 429, and memory flat.

    python tests/benchmarks/image_load.py build/crepe_tiny/cpu/image.tar [SECONDS]

Prints the limits that the kernel keeps, the answers by status, and the server's memory over time with its slope; status
1 for any other answer.
"""

from __future__ import annotations

import http.client
import json
import re
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path

import numpy as np

CLIENTS, PORT, NAME = 32, 18000, "mobuild-load"
PODMAN = ("podman", "--runtime", "runc")
LIMITS = ("--memory", "512m", "--ulimit", "nofile=1024:1024", "--ulimit", "nproc=1024:1024", "--network", "host")
BODY = json.dumps(
    {"inputs": [{"name": "frames", "shape": [1, 1024], "datatype": "FP32", "data": [0.1] * 1024}], "outputs": []}
).encode()


def ask(connection: http.client.HTTPConnection, method: str, path: str, body: bytes | None = None) -> tuple[int, bytes]:
    connection.request(method, path, body, {"Content-Type": "application/json"} if body else {})
    answer = connection.getresponse()
    return answer.status, answer.read()


def resident_mb() -> float:
    _, text = ask(http.client.HTTPConnection("127.0.0.1", PORT, timeout=30), "GET", "/metrics")
    found = re.search(rb"(?m)^process_resident_memory_bytes\S* (\S+)", text)
    return float(found[1]) / 1e6 if found else float("nan")


def load(until: float, counts: Counter[int | str]) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", PORT, timeout=60)
    while time.monotonic() < until:
        try:
            counts[ask(connection, "POST", "/v2/models/crepe_tiny/infer", BODY)[0]] += 1
        except (OSError, http.client.HTTPException) as error:
            counts[type(error).__name__] += 1
            connection.close()


def main(image: str, seconds: float) -> int:
    said = subprocess.run([*PODMAN, "load", "-q", "-i", image], check=True, capture_output=True, text=True).stdout
    tag = said.split()[-1]
    variables = ("--env", f"MOBUILD_PORT={PORT}", "--env", "MOBUILD_HOST=127.0.0.1")
    subprocess.run([*PODMAN, "run", "-d", "--rm", "--name", NAME, *LIMITS, *variables, tag], check=True)
    try:
        time.sleep(3)
        limits = [path.read_text().strip() for path in Path("/sys/fs/cgroup").glob("**/*libpod*/memory*limit_in_bytes")]
        print("limits in bytes:", ", ".join(sorted(set(limits))) or "none seen", flush=True)
        counts: Counter[int | str] = Counter()
        begun = time.monotonic()
        threads = [threading.Thread(target=load, args=(begun + seconds, counts)) for _ in range(CLIENTS)]
        for thread in threads:
            thread.start()
        points = []
        while any(thread.is_alive() for thread in threads):
            time.sleep(min(15.0, seconds / 10))
            points.append((time.monotonic() - begun, resident_mb()))
        late = np.array([point for point in points if point[0] > seconds / 5])
        slope = np.polyfit(late[:, 0] / 60, late[:, 1], 1)[0] if len(late) > 1 else float("nan")
        print("answers:", dict(counts), f"{sum(counts.values()) / seconds:.0f}/s")
        print("memory:", ", ".join(f"{at:.0f} s {size:.1f} MB" for at, size in points))
        print(f"slope after a fifth of the time: {slope:+.2f} MB a minute")
        return 0 if set(counts) <= {200, 429} and counts[200] else 1
    finally:
        subprocess.run([*PODMAN, "stop", "-t", "5", NAME], capture_output=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], float(sys.argv[2]) if len(sys.argv) > 2 else 300))
