#!/usr/bin/env bash
# The step of action.yml, whose inputs are environment variables: compares RANKING with BASELINE. Exits with 3 where a
# gate fails. Summary and JUnit are written whether it fails or not.
set -euo pipefail

if [ -n "${INSTALL:-}" ]; then
    python -m pip install --quiet "$INSTALL"
fi
arguments=("$BASELINE" "$RANKING" --qrels "$QRELS" --metric "$METRIC" --output "$REPORT" --junit "$REPORT/gates.xml")
if [ -n "${GITHUB_STEP_SUMMARY:-}" ]; then
    arguments+=(--summary "$GITHUB_STEP_SUMMARY")
fi
while IFS= read -r gate; do
    if [ -n "$gate" ]; then
        arguments+=(--fail-if "$gate")
    fi
done <<< "${FAIL_IF:-$METRIC < baseline and significant}"
if [ -n "${OPTIONS:-}" ]; then
    mapfile -t options < <(xargs -n 1 printf '%s\n' <<< "$OPTIONS") # quotes as in a shell, and nothing is executed
    arguments+=("${options[@]}")
fi
exec ltr-harness compare "${arguments[@]}"
