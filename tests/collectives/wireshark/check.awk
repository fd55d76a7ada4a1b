# Checks the text of tshark -V -O ringfence of one job, of 4 ranks of wire_job (its lines "R has sent N bytes" come
# first). AUTH: how frames are protected. Prints what is wrong, and how much there was.

function wrong(text) {
    if (++faults <= 10) {
        print "packet " packet ": " text ": " title
    }
}

# What a frame shows, when all of its lines have been read.
function end_of_frame(    way, bytes) {
    if (title == "" || at["Kind of frame"] == "") {
        return
    }
    frames++
    way = at["[From rank"] " to " at["[To rank"]
    if (at["Number on its connection"] + 0 != next_number[way]++) {
        wrong("number " at["Number on its connection"] " is not the next " way)
    }
    last_kind[way] = at["Kind of frame"]
    if (AUTH == "encrypt") {
        if (at["Bytes of the body"] > 0 && at["Encrypted body"] == "") {
            wrong("a body is shown")
        }
        return
    }
    if (last_kind[way] ~ /^flag/ && at["Operation"] + 0 != ++operation[way " in " at["Communicator"]]) {
        wrong("operation " at["Operation"] " is not the next")
    }
    if (last_kind[way] ~ /^data/ && at["[Operation"] == "" && at["[Message"] == "") {
        wrong("data of no operation")
    }
    if (last_kind[way] ~ /^data/ && title !~ /message/ && title !~ /gather #|scan/ && at["[Phase"] == "") {
        wrong("data of no phase")
    }
    if (match(title, /[0-9]+ bytes?$/) && last_kind[way] ~ /^(flag|data)/) {
        bytes = substr(title, RSTART) + 0
        shown[at["[From rank"]] += bytes
    }
}

# Operands are rank + 1 + place % 7: so is the first round, and its sum over 4 ranks what is copied in the end.
function element(place, value) {
    if (title !~ /all_reduce #[0-9]+ ring/ || title ~ /of ranks/ || at["Payload"] !~ /× float$/) {
        return
    }
    if (at["[Round"] + 0 == 0) {
        elements++
        if (value != at["[From rank"] + 1 + place % 7) {
            wrong("element " place " is " value)
        }
    } else if (at["[Phase"] == "all-gather") {
        elements++
        if (value != 10 + 4 * (place % 7)) {
            wrong("element " place " of the sum is " value)
        }
    }
}

/^[0-3] has sent / { sent[$1] = $4; next }
/^Frame [0-9]+:/ { packet = $2 + 0 }
/^Ringfence collectives/ { end_of_frame(); title = $0; delete at; next }
/Expert Info|Malformed|Lua Error/ { wrong($0) }
/^ +\[[0-9]+\] Element: / { element(substr($1, 2) + 0, $3); next }
/^ +[^ ].*: / {
    name = $0
    sub(/^ +/, "", name)
    sub(/:.*/, "", name)
    value = $0
    sub(/^[^:]*: /, "", value)
    sub(/\]$/, "", value)
    at[name] = value
}
END {
    end_of_frame()
    title = "at the end"
    for (way in last_kind) { # who has had a goodbye sends none
        ways++
        split(way, ranks, " to ")
        if (last_kind[way] !~ /^goodbye/ && last_kind[ranks[2] " to " ranks[1]] !~ /^goodbye/) {
            wrong("no goodbye ends what goes from " way)
        }
    }
    for (rank = 0; rank < 4; rank++) {
        if (AUTH != "encrypt" && (sent[rank] == "" || sent[rank] != shown[rank])) {
            wrong("rank " rank " has sent " sent[rank] " bytes, and " shown[rank] " are shown")
        }
    }
    if (ways != 12) {
        wrong(ways " ways between 4 ranks")
    }
    if (RING && elements < 3 * 2 * 4000) {
        wrong("only " elements " elements of sums")
    }
    print frames " frames of " ways " ways, " shown[0] + shown[1] + shown[2] + shown[3] " bytes of operands, " \
        elements + 0 " elements compared, " faults + 0 " faults"
    exit faults > 0
}
