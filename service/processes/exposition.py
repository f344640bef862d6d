"""Merges the metrics of all processes into one text, where the series of each process have its number as a label.

So a counter of a process that was restarted begins at 0 under its own label, which Prometheus understands. A sum over
all processes, made here, would decrease then, and look like a restart of everything.
"""

import re
from collections.abc import Mapping

_WHOLE = {"tarry_pending_messages", "tarry_group_lag_messages", "tarry_build_info"}
"""Metrics that appear once: those that one process reports for all, and those that are equal in all. If two processes
report one, the duty has just moved between them, and the larger value counts."""
_SAMPLE = re.compile(r"([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(.*)\})? (\S+)")
_UP = "# HELP tarry_process_up Whether the process has told its metrics.\n# TYPE tarry_process_up gauge"


def merge(texts: Mapping[int, str | None]) -> str:
    """Merges the texts, given by process number; None for a process that did not answer."""
    families: dict[str, list[str]] = {}
    whole: dict[str, dict[str, str]] = {}
    for number, text in texts.items():
        head, samples = "", list[str]()
        for line in (text or "").splitlines():
            if line.startswith("# HELP"):
                head, samples = line, families.setdefault(line, [])
            elif line.startswith("#"):
                if line not in samples:
                    samples.append(line)
            elif (sample := _SAMPLE.fullmatch(line)) is not None:
                name, labels, value = sample.groups("")
                if name in _WHOLE:
                    series = whole.setdefault(head, {})
                    key = line.removesuffix(f" {value}")
                    series[key] = max(series.get(key, value), value, key=float)
                else:
                    own = f'process="{number}"{"," if labels else ""}{labels}'
                    samples.append(f"{name}{{{own}}} {value}")
    for head, series in whole.items():
        families[head] += [f"{key} {value}" for key, value in series.items()]
    told = [line for head, samples in families.items() for line in (head, *samples)]
    up = [f'tarry_process_up{{process="{number}"}} {int(texts[number] is not None)}' for number in sorted(texts)]
    return "\n".join([*told, _UP, *up, ""])
