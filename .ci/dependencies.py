"""Fails when the library's own dependencies grow, or bring in another licence.

    python3 .ci/dependencies.py
"""

import json
import subprocess
import sys

MOST_PACKAGES = 21
ALLOWED = {"MIT", "Apache-2.0", "BSL-1.0", "Zlib", "BSD-2-Clause", "BSD-3-Clause",
           "Unlicense", "Unicode-3.0", "ISC", "CC0-1.0", "Apache-2.0 WITH LLVM-exception"}


def acceptable(licence):
    """Whether one side of each OR is allowed; the pairs joined by AND all must be."""
    licence = (licence or "").replace("/", " OR ").replace("(", "").replace(")", "")
    return all(
        any(choice.strip() in ALLOWED for choice in part.split(" OR "))
        for part in licence.split(" AND ")
    )


def main():
    tree = subprocess.run(
        ["cargo", "tree", "--locked", "--prefix", "none", "-e", "normal,build"],
        check=True, capture_output=True, text=True,
    ).stdout
    packages = {line.split(" (")[0] for line in tree.splitlines() if line}
    metadata = json.loads(subprocess.run(
        ["cargo", "metadata", "--locked", "--all-features", "--format-version", "1"],
        check=True, capture_output=True, text=True,
    ).stdout)
    bad = [f"{p['name']} {p['version']}: {p['license']}"
           for p in metadata["packages"] if not acceptable(p["license"])]
    print(f"{len(packages)} packages in the default build, {MOST_PACKAGES} at most")
    for line in bad:
        print("licence not allowed:", line)
    if len(packages) > MOST_PACKAGES or bad:
        sys.exit(1)


main()
