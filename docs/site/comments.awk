# Turns the comments of a C header into Doxygen's, since headers are read more often than pages are made: a comment that
# begins a line documents the declaration below it, one that follows code documents that code. A line "---- Title ----"
# begins a group, which lasts until the next.
{
    line = $0
    at = index(line, "/*")
    if (!inside && at > 0) {
        before = substr(line, 1, at - 1)
        rest = substr(line, at + 2)
        inside = index(rest, "*/") == 0
        if (before !~ /^[ \t]*$/)
            line = before "/**<" rest
        else if (rest ~ /^ ---- .* ----/) {
            sub(/^ ---- /, "", rest); sub(/ ----.*$/, "", rest)
            line = (grouped ? "/** @} */ " : "") "/** @name " rest " */ /** @{ */"
            grouped = 1
        } else if (FNR == 1)
            line = "/** @file\n *" rest
        else
            line = "/**" rest
    } else if (inside && index(line, "*/") > 0)
        inside = 0
    # The group ends before the closing brace of extern "C".
    if (grouped && line ~ /^#ifdef __cplusplus/) {
        print "/** @} */" 
        grouped = 0
    }
    print line
}
