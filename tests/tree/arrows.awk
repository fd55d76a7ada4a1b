# Compares what files include and objects call with the table of arrows. Called by arrows.sh with
# four inputs, told apart by the variable `input`: the table, the files, their includes, and what nm
# says of their objects.

function fail(text) {
    if (!(text in told)) {
        told[text] = 1
        print text
        flaws++
    }
}

function top_of(path) {
    sub(/\/.*/, "", path)
    return path
}

# The row that a file belongs to: the one that claims the header, else the longest that it lies in.
function unit_of(path,    at) {
    if (path in claimed) {
        return claimed[path]
    }
    for (at = path; ; ) {
        if (at in row) {
            return at
        }
        if (!sub(/\/[^\/]*$/, "", at)) {
            return ""
        }
    }
}

# The entry of a row that allows it to use a unit; empty: none does.
function entry_for(from, to,    at) {
    for (at = to; ; ) {
        if ((from, at) in entry) {
            return at
        }
        if (!sub(/\/[^\/]*$/, "", at)) {
            return ""
        }
    }
}

# The row that defines a symbol: the caller's own, else one that it may use, else any; empty: a
# library outside the project does.
function definition_unit(from, symbol,    i, to, found) {
    for (i = 1; i <= definitions[symbol]; i++) {
        to = unit_of(defined_in[symbol, i])
        if (to == from) {
            return to
        }
        if (found == "" || entry_for(from, to) != "") {
            found = to
        }
    }
    return found
}

# One arrow, from a file of one row to something of another.
function arrow(file, from, to, what,    by) {
    by = entry_for(from, to)
    if (by == "") {
        fail(file " " what ": " from " may not use " to)
    } else {
        used[from, by] = 1
    }
}

# ---- the table ----

input == "table" && (/^[ \t]*#/ || /^[ \t]*$/) { next }

input == "table" && /^[^ \t]/ {
    name = $1
    if (name in row || NF > 1) {
        fail("no new row: " $0)
    }
    row[name] = ++rows
    row_at[rows] = name
    next
}

input == "table" && $1 == "uses" {
    for (i = 2; i <= NF; i++) {
        entry[name, $i] = 1
        entries++
        entry_from[entries] = name
        entry_to[entries] = $i
        found = 0
        for (above = 1; above < rows; above++) {
            found = found || row_at[above] == $i || index(row_at[above], $i "/") == 1
        }
        if (!found || $i == name) {
            fail("the row of " name " names " $i ", which no row above it is")
        }
    }
    next
}

input == "table" && $1 == "offers" {
    for (i = 2; i <= NF; i++) {
        header = name "/" $i
        if ($i ~ /^include\//) {
            header = top_of(name) "/" $i
            claimed[header] = name
        }
        open[header] = 1
        open_of[header] = name
    }
    next
}

input == "table" {
    fail("neither uses nor offers: " $0)
}

# ---- the files: which are there, and where an include leads ----

input == "files" {
    exists[$0] = 1
    unit = unit_of($0)
    if (unit == "") {
        fail($0 " belongs to no row")
    } else {
        populated[unit] = 1
    }
    count = split($0, part, "/")
    suffix = part[count]
    for (i = count - 1; i >= 1; i--) {
        ends[suffix, ++endings[suffix]] = $0
        suffix = part[i] "/" suffix
    }
    next
}

function resolve(file, name,    at, i, found, here) {
    at = file
    sub(/[^\/]*$/, "", at)
    at = at name
    while (sub(/[^\/]+\/\.\.\//, "", at)) {
    }
    if (at in exists) {
        return at
    }
    for (i = 1; i <= endings[name]; i++) { # of its own part of the project, else of another
        here = top_of(ends[name, i]) == top_of(file)
        if (found == "" || here) {
            found = ends[name, i]
        }
    }
    return found
}

input == "includes" {
    file = $0
    sub(/:.*/, "", file)
    name = $0
    sub(/^[^"]*"/, "", name)
    sub(/".*/, "", name)
    header = resolve(file, name)
    if (header == "") {
        next # generated
    }
    from = unit_of(file)
    to = unit_of(header)
    if (from == "" || to == "" || from == to) {
        next
    }
    arrow(file, from, to, "includes " name)
    if (header in open) {
        seen[header] = 1
    }
    if (header !~ /\/include\// && !(header in open && top_of(from) == top_of(to))) {
        fail(file " includes " name ": a private header of " to)
    }
    next
}

# ---- the objects: "s OBJECT SOURCE", and then lines of nm -A -P ----

input == "objects" && $1 == "s" {
    source[$2 ":"] = $3
    next
}

input == "objects" && ($3 == "T" || $3 == "D" || $3 == "B" || $3 == "R" || $3 == "V") {
    if ($2 != "main") {
        defined_in[$2, ++definitions[$2]] = source[$1] # programs may use a name each
    }
    next
}

input == "objects" && $3 == "U" {
    calls++
    call_from[calls] = source[$1]
    call_to[calls] = $2
    next
}

END {
    for (i = 1; i <= calls; i++) {
        from = unit_of(call_from[i])
        to = definition_unit(from, call_to[i])
        checked += to != ""
        if (from != "" && to != "" && from != to) {
            arrow(call_from[i], from, to, "uses " call_to[i])
        }
    }
    if (checked == 0) {
        fail("no object of the project uses another")
    }
    for (i = 1; i <= entries; i++) {
        if (!((entry_from[i], entry_to[i]) in used)) {
            fail("the row of " entry_from[i] " names " entry_to[i] ", which it does not use")
        }
    }
    for (header in open) {
        if (!(header in exists)) {
            fail("the row of " open_of[header] " offers " header ", which is not there")
        } else if (!(header in seen) && !(header in claimed)) {
            fail("the row of " open_of[header] " offers " header ", which no other includes")
        }
    }
    for (i = 1; i <= rows; i++) {
        if (!(row_at[i] in populated)) {
            fail("the row of " row_at[i] " has no files")
        }
    }
    if (flaws > 0) {
        exit 1
    }
    print rows " directories, " checked " calls between files: all arrows point up the table"
}
