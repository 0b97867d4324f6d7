#!/bin/sh
# house.sh: the house as a picture (SVG, to standard output), made from the tree: floors from the tools down to the public
# headers, their folders as rooms, and a line from each room to those of its floor that it includes. A room stands above
# the rooms that it uses.
set -eu
cd "$(dirname "$0")/.."
git ls-files -co --exclude-standard '*.c' '*.h' '*.def' | grep -vE '^(tests|bench|examples)/' | LC_ALL=C sort | xargs awk '
function folder(file) {
    sub(/\/[^\/]*$/, "", file)
    if (file ~ /\/.*\/simd$/)
        sub(/\/simd$/, "", file)
    return file == "include/xcvm" ? "include" : file
}
function floor_of(room) { sub(/\/.*/, "", room); return room }
BEGIN {
    floors = split("tools train tape compiler vm proto ops base include", order)
    says["tools"] = "the xcvm command"
    says["train"] = "data, the training loop, checkpoints, curves"
    says["tape"] = "beside train: networks that are defined by running them"
    says["compiler"] = "libxcvm-compiler: models to programs"
    says["vm"] = "libxcvm: load, verify, run"
    says["proto"] = "the codec and the text form"
    says["ops"] = "the instruction table and its kernels, a room for each family"
    says["base"] = "memory, values, threads; knows nothing of programs"
    says["include"] = "the public headers"
}
FNR == 1 && !(folder(FILENAME) in room_of) {
    room = folder(FILENAME)
    if (!(floor_of(room) in says)) {
        print "house.sh: " FILENAME ": a floor that is not drawn" >"/dev/stderr"
        exit failed = 1
    }
    room_of[room] = floor_of(room)
    if (room != floor_of(room))
        rooms[floor_of(room), ++count[floor_of(room)]] = room
}
/^[ \t]*#[ \t]*include[ \t]*"/ {
    split($0, part, "\"")
    target = part[2]
    if (FILENAME ~ /^tools\// && target !~ /^base\//)
        target = "tools/" target
    from = folder(FILENAME)
    to = folder(target)
    if (to ~ /\/simd$/ || to == from || !(to ~ /\//) || floor_of(from) != floor_of(to) || from == floor_of(from))
        next
    uses[from, to] = 1
}
# How many rooms lie below one; `guard` ends what a circle would make endless (scripts/layers.sh finds those).
function depth(room, guard, key, pair, d, most) {
    if (room in depths)
        return depths[room]
    most = 0
    for (key in uses) {
        split(key, pair, SUBSEP)
        if (pair[1] == room && guard < 20 && !((pair[2], room) in uses)) {
            d = depth(pair[2], guard + 1) + 1
            most = d > most ? d : most
        }
    }
    return depths[room] = most
}
END {
    if (failed)
        exit 1
    width = 1080; left = 16; box = 30; gap = 34; top = 16; y = top
    for (f = 1; f <= floors; f++) {
        name = order[f]
        rows = 0
        split("", in_row)
        for (i = 1; i <= count[name]; i++) {
            d = depth(rooms[name, i], 0)
            row[rooms[name, i]] = d
            column[rooms[name, i]] = ++in_row[d]
            rows = d + 1 > rows ? d + 1 : rows
        }
        band = 40 + (rows > 0 ? rows * (box + gap) - gap + 14 : 4)
        out = out sprintf("<rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" rx=\"6\" fill=\"%s\" stroke=\"#c9cfd6\"/>\n", left, y,
            width - 2 * left, band, f % 2 ? "#f7f9fb" : "#eef2f6")
        out = out sprintf("<text x=\"%d\" y=\"%d\"><tspan font-weight=\"bold\">%s/</tspan><tspan dx=\"12\" fill=\"#555\">%s</tspan></text>\n",
            left + 14, y + 25, name, says[name])
        for (i = 1; i <= count[name]; i++) {
            room = rooms[name, i]
            d = row[room]
            each = (width - 2 * left - 28) / in_row[d]
            wide = each - 10 > 132 ? 132 : each - 10
            x = left + 14 + (column[room] - 0.5) * each
            at_x[room] = x
            at_y[room] = y + 40 + (rows - 1 - d) * (box + gap)
            label = room
            sub(/^[^\/]*\//, "", label)
            boxes = boxes sprintf("<rect x=\"%.0f\" y=\"%d\" width=\"%.0f\" height=\"%d\" rx=\"4\" fill=\"white\" stroke=\"#1f6fb2\"/>\n",
                x - wide / 2, at_y[room], wide, box)
            boxes = boxes sprintf("<text x=\"%.0f\" y=\"%d\" text-anchor=\"middle\" font-size=\"13\">%s/</text>\n", x, at_y[room] + 20, label)
        }
        for (i = 1; i <= count[name]; i++)
            for (j = 1; j <= count[name]; j++)
                if ((rooms[name, i], rooms[name, j]) in uses && row[rooms[name, i]] > row[rooms[name, j]])
                    lines = lines sprintf("<line x1=\"%.0f\" y1=\"%d\" x2=\"%.0f\" y2=\"%d\" stroke=\"#8fa3b8\" marker-end=\"url(#arrow)\"/>\n",
                        at_x[rooms[name, i]], at_y[rooms[name, i]] + box, at_x[rooms[name, j]], at_y[rooms[name, j]] - 2)
        y += band + 10
    }
    printf "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" font-family=\"sans-serif\" font-size=\"14\">\n", width, y + 24
    print "<defs><marker id=\"arrow\" viewBox=\"0 0 8 8\" refX=\"7\" refY=\"4\" markerWidth=\"7\" markerHeight=\"7\" orient=\"auto\"><path d=\"M0 0L8 4L0 8z\" fill=\"#8fa3b8\"/></marker></defs>"
    print "<rect width=\"100%\" height=\"100%\" fill=\"white\"/>"
    printf "%s%s%s", out, lines, boxes
    printf "<text x=\"%d\" y=\"%d\" font-size=\"12\" fill=\"#555\">A floor uses those below it. An arrow: a room uses another of its floor; simd/ below a room is compiled for each instruction set.</text>\n</svg>\n", left, y + 12
}'
