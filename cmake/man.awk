# Turns what a program prints for --help into a page for man(1). Called by man.sh.
#   awk -v name=launcher -v version=0.1.0 -f man.awk
# Help has one form: "Usage:", and lines below it indented by 7; paragraphs; "A title:"; and entries, which are
# indented by 2, with two spaces or more in front of what they mean, and more of that on lines indented further.
# A line "@COMMAND" in front of a text begins the help of a command of that program.

function escaped(text) {
    gsub(/\\/, "\\e", text)
    gsub(/-/, "\\-", text)
    gsub(/'/, "\\(aq", text)
    gsub(/`/, "\\(ga", text)
    gsub(/\^/, "\\(ha", text)
    gsub(/~/, "\\(ti", text)
    sub(/^\./, "\\\\\\&.", text)
    return text
}

function title(text, macro) {
    print macro, "\"" escaped(text) "\""
    begun = 1
}

# A paragraph; the first one of a program describes it, and its first sentence names it.
function end_paragraph(    sentence) {
    if (paragraph == "")
        return
    if (!named) {
        sentence = paragraph
        sub(/[.;:] .*|[.]$/, "", sentence)
        sub("^" name ": ", "", sentence)
        title("NAME", ".SH")
        print escaped(name) " \\- " escaped(tolower(substr(sentence, 1, 1)) substr(sentence, 2))
        title("SYNOPSIS", ".SH")
        printf "%s", synopsis
        title("DESCRIPTION", ".SH")
        named = 1
    } else if (sub(/^Exit status: /, "", paragraph))
        title("EXIT STATUS", command == "" ? ".SH" : ".SS")
    if (!begun)
        print ".PP"
    print escaped(paragraph)
    begun = 0
    paragraph = ""
}

function synopsis_line(text) {
    text = ".B \"" escaped(text) "\"\n.br\n"
    if (named)
        printf "%s", text
    else
        synopsis = synopsis text
    begun = 0
}

BEGIN {
    print ".\\\" Made by cmake/man.awk from " name " --help."
    print ".TH " toupper(escaped(name)) " 1 \"\" \"Ringfence " version "\" \"User commands\""
    print ".nh\n.ad l"
}

/^@/ {
    end_paragraph()
    command = substr($0, 2)
    title(toupper(name " " command), ".SH")
    next
}

/^Usage: / {
    usage = 1
    synopsis_line(substr($0, 8))
    next
}

usage && /^       [^ ]/ {
    synopsis_line(substr($0, 8))
    next
}

{ usage = 0 }

/^$/ {
    end_paragraph()
    next
}

paragraph == "" && /^[A-Z][^.]*:$/ {
    title(command == "" ? toupper(substr($0, 1, length($0) - 1)) : substr($0, 1, length($0) - 1), command == "" ? ".SH" : ".SS")
    next
}

/^  [^ ]/ {
    end_paragraph()
    term = substr($0, 3)
    meaning = ""
    if (match(term, /  +/)) {
        meaning = substr(term, RSTART + RLENGTH)
        term = substr(term, 1, RSTART - 1)
    } else if (match(term, /^--[^ ]+ [A-Z]+ [a-z]/)) { # a flag so long that one space is left
        meaning = substr(term, RLENGTH)
        term = substr(term, 1, RLENGTH - 2)
    }
    print ".TP\n.B \"" escaped(term) "\""
    if (meaning != "")
        print escaped(meaning)
    begun = 0
    next
}

/^   / {
    sub(/^ +/, "")
    print escaped($0)
    next
}

{ paragraph = paragraph == "" ? $0 : paragraph " " $0 }

END {
    end_paragraph()
    title("SEE ALSO", ".SH")
    print "README.md and docs/CLI.md in share/doc/ringfence, below the folder where Ringfence is installed"
}
