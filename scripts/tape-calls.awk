# The page of the tape's calls, from the generated header tape_calls.h: a signature in C and in C++ for each instruction.
function list(names, separator,    text, i, count, parts) {
    count = split(names, parts, " ")
    for (i = 1; i <= count; i++)
        text = text (i > 1 ? separator : "") parts[i]
    return text
}
/^\/\* .* \*\/$/ { comment = substr($0, 4, length($0) - 6) }
/^struct xcvm_[A-Za-z0-9]+_results \{$/ { results = $2; sub(/^xcvm_/, "", results); sub(/_results$/, "", results); next }
/^struct xcvm_[A-Za-z0-9]+_call \{$/ {
    name = $2
    sub(/^xcvm_/, "", name)
    sub(/_call$/, "", name)
    order[++total] = name
    summary[name] = comment
    in_call = 1
    next
}
/^}/ { results = ""; in_call = 0 }
results != "" && NF > 1 {
    field = $NF
    gsub(/[*;]/, "", field)
    outputs[results] = outputs[results] " " field
    if ($1 == "xcvm_var_array")
        is_list[results, field] = 1
}
in_call && NF > 1 {
    field = $NF
    gsub(/[*;]/, "", field)
    if (field == "tape" || field == "out")
        next
    if (field == "into")
        into[name] = 1
    else if ($1 == "xcvm_var" || $1 == "xcvm_var_list")
        operands[name] = operands[name] " " ($1 == "xcvm_var" ? field : field "[]")
    else {
        attributes[name] = attributes[name] " " field
        type = $0
        sub(/^ */, "", type)
        sub(/ ?[A-Za-z0-9_]+;$/, "", type)
        type_of[name, field] = type
    }
}
/^    xcvm_[A-Za-z0-9]+_attributes\(\) : call\(\) \{/ {
    of = $1
    sub(/^xcvm_/, "", of)
    sub(/_attributes\(\)$/, "", of)
    text = $0
    sub(/^[^{]*\{ */, "", text)
    sub(/ *\}$/, "", text)
    count = split(text, parts, /; */)
    for (i = 1; i <= count; i++)
        if (match(parts[i], /^call\.[A-Za-z0-9_]+ = /)) {
            field = substr(parts[i], 6, RLENGTH - 8)
            default_of[of, field] = substr(parts[i], RLENGTH + 1)
        }
}
END {
    print "# The calls of the tape\n"
    print "Made from the instruction table by `make generated`, as `xcvm/tape_calls.h` is. [The tape](tape.md) says how calls"
    print "are used, and [the instructions](instructions.md) which types they take.\n"
    print "A call takes the tape, then operands, of which those that are left out are absent, and gives its first result."
    print "`x[]` is a list, as `XCVM_VARS(a, b)`. Attributes have the defaults that the table says, or else none: an empty"
    print "list. In C they are named behind the operands, and so are further results and `into`:\n"
    print "    xcvm_TopK(t, x, k, .axis = 0, .out = {&values, &indices})\n"
    print "In C++ they are set in a struct that comes behind the tape:\n"
    print "    xcvm_TopK(t, xcvm_TopK_attributes().axis(0).values(&values).indices(&indices), x, k)\n"
    print "`INTS`, `FLOATS` and `TEXTS` are `xcvm_int_list`, `xcvm_float_list` and `xcvm_text_list`.\n"
    for (n = 1; n <= total; n++) {
        name = order[n]
        text = summary[name]
        gsub(/[*_<>|]/, "\\\\&", text)
        gsub("[[]", "\\[", text)
        printf "## %s\n\n    xcvm_%s(tape%s%s)\n\n%s%s\n", name, name, operands[name] != "" ? ", " : "",
            list(operands[name], ", "), text, into[name] ? "" : "\n\nIt takes no `into`."
        count = split(outputs[name], parts, " ")
        if (count > 0) {
            printf "\nResults: "
            for (i = 1; i <= count; i++)
                printf("%s`%s%s`", i > 1 ? ", " : "", parts[i], (name, parts[i]) in is_list ? "[]" : "")
            print "."
        }
        count = split(attributes[name], parts, " ")
        if (count > 0)
            print "\n| attribute | type | default |\n| --- | --- | --- |"
        for (i = 1; i <= count; i++) {
            type = type_of[name, parts[i]]
            sub(/^xcvm_int_list$/, "INTS", type)
            sub(/^xcvm_float_list$/, "FLOATS", type)
            sub(/^xcvm_text_list$/, "TEXTS", type)
            value = default_of[name, parts[i]]
            printf "| %s | `%s` | %s |\n", parts[i], type, value != "" ? "`" value "`" : ""
        }
        print ""
    }
}
