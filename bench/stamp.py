#!/usr/bin/python3
"""stamp.py NEW [OLD]: writes before each table and each fenced text of the page NEW on which processor and when it was
measured, and keeps the tables of OLD, an earlier page, that were measured on other processors: each goes behind the table
with the same heading and the same place below it. Tables of this processor are replaced. NEW is changed in place.

STAMP_PROCESSOR and STAMP_DATE replace this machine's processor and today's date; a page that is already stamped keeps its
stamps."""
import datetime
import os
import re
import sys

STAMP = re.compile(r"Measured on (.*), (\d{4}-\d\d-\d\d)\.$")


def processor():
    with open("/proc/cpuinfo") as file:
        names = re.findall(r"^model name\s*: (.*)$", file.read(), re.MULTILINE)
    return f"{names[0] if names else os.uname().machine}, {os.cpu_count()} cores"


def blocks(text):
    """The parts of a page: ("line", text) and ("block", text, heading, stamp), where a stamp may be None."""
    lines, at, heading, stamp = text.splitlines(), 0, "", None
    while at < len(lines):
        line = lines[at]
        first = at
        if STAMP.match(line):
            stamp = line
            at += 2 if at + 1 < len(lines) and not lines[at + 1] else 1
        elif line.startswith("|") or line.startswith("```"):
            at += 1
            if line.startswith("|"):
                while at < len(lines) and lines[at].startswith("|"):
                    at += 1
            else:
                while at < len(lines) and not lines[at].startswith("```"):
                    at += 1
                at += 1
            yield "block", "\n".join(lines[first:at]), heading, stamp
            stamp = None
        else:
            heading = line if line.startswith("#") else heading
            at += 1
            yield "line", line


def name_of(stamp):
    return STAMP.match(stamp).group(1)


def kept(page, own):
    """By heading and place below it: the stamped blocks of other processors."""
    found, counts = {}, {}
    for part in blocks(page):
        if part[0] != "block" or part[3] is None:
            continue
        _, text, heading, stamp = part
        place = counts[heading, name_of(stamp)] = counts.get((heading, name_of(stamp)), 0) + 1
        if name_of(stamp) != own:
            found.setdefault((heading, place), []).append(f"{stamp}\n\n{text}")
    return found


def merged(new, old, stamp):
    others, counts, result = kept(old, name_of(stamp)), {}, []
    for part in blocks(new):
        if part[0] == "line":
            result.append(part[1])
            continue
        _, text, heading, given = part
        place = counts[heading] = counts.get(heading, 0) + 1
        # Fenced text in the middle of a list or a sentence keeps its line to itself, too.
        if result and result[-1]:
            result.append("")
        result.append(f"{given or stamp}\n\n{text}")
        for other in others.get((heading, place), []):
            result.append(f"\n{other}")
    return "\n".join(result) + "\n"


def main():
    if not 2 <= len(sys.argv) <= 3:
        sys.exit(__doc__)
    with open(sys.argv[1]) as file:
        new = file.read()
    old = ""
    if len(sys.argv) == 3 and os.path.exists(sys.argv[2]):
        with open(sys.argv[2]) as file:
            old = file.read()
    date = os.environ.get("STAMP_DATE") or datetime.date.today().isoformat()
    stamp = f"Measured on {os.environ.get('STAMP_PROCESSOR') or processor()}, {date}."
    text = merged(new, old, stamp)
    with open(sys.argv[1], "w") as file:
        file.write(text)


if __name__ == "__main__":
    main()
