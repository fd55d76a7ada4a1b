#!/usr/bin/env bash
# tokenizer-learn as a user calls it: what it prints and writes, its exit codes, and what it refuses.
#   cli.sh BIN SCRATCH
set -euo pipefail

PATH=$1:$PATH
rm -rf "$2"
mkdir -p "$2"
cd "$2"

fail() {
    echo "tokenizer-learn: $*"
    exit 1
}

refused() { # EXIT-CODE MESSAGE ARGUMENTS...
    local expected=$1 message=$2 code=0
    shift 2
    tokenizer-learn "$@" >out 2>err || code=$?
    [ "$code" -eq "$expected" ] || fail "$*: exit code $code, expected $expected: $(cat err)"
    [ "$(wc -l <err)" -eq 1 ] || fail "$*: more than one line: $(cat err)"
    grep -qF -- "$message" err || fail "$*: $(cat err), expected $message"
    [ ! -s out ] || fail "$*: printed $(cat out)"
}

for i in 1 2 3; do echo "to be, or not to be: that is the question, line $i"; done >text.txt
printf '{"text": "to be or not"}\n{"wrong": "he go", "right": "he goes"}\n' >data.jsonl

tokenizer-learn --help | grep "^Usage: tokenizer-learn" >/dev/null || fail "no help"
tokenizer-learn --vocab-size 280 --out made/here/t.json text.txt data.jsonl >out 2>err || fail "$(cat err)"
grep -q "^made/here/t.json: 280 tokens\. The texts have [0-9]* bytes and [0-9]* tokens" out || fail "printed $(cat out)"
[ ! -s err ] || fail "a short run logs $(cat err)"
tokenizer-learn --vocab-size 280 --out again.json data.jsonl <(cat text.txt) >/dev/null || fail "a pipe is no text"
cmp made/here/t.json again.json || fail "another order gives another file"
mv data.jsonl data.json
tokenizer-learn --vocab-size 280 --out again.json data.json text.txt >/dev/null || fail "lines in a .json file"
cmp made/here/t.json again.json || fail "lines in a .json file are learnt as text"

refused 2 "at least one text" --vocab-size 300 --out t.json
refused 2 "at least one text" --out t.json text.txt
refused 2 "at least one text" --vocab-size 300 text.txt
for size in 256 65537 many 3e2 ""; do
    refused 2 "a number from 257 to 65536" --vocab-size "$size" --out t.json text.txt
done
tokenizer-learn --merges 3 2>err && fail "an unknown option is taken"
grep -q "tokenizer-learn --help" err || fail "no hint: $(cat err)"

refused 1 "none.txt: No such file" --vocab-size 300 --out t.json none.txt
refused 1 "directory" --vocab-size 300 --out t.json made
printf '{"text": "a"}\n{"text": 1}\n' >bad.jsonl
refused 1 'bad.jsonl:2: "text" is not a string' --vocab-size 300 --out t.json text.txt bad.jsonl
refused 1 "made" --vocab-size 300 --out made text.txt
refused 1 "there is no text in /dev/null, nor in the other files" --vocab-size 257 --out t.json /dev/null /dev/null
refused 1 "--vocab-size can be at most" --vocab-size 4000 --out t.json text.txt
[ ! -e t.json ] || fail "a refused run left a file"
most=$(grep -oE '[0-9]+$' err)
tokenizer-learn --vocab-size "$most" --out t.json text.txt >/dev/null || fail "$most is too many"
refused 1 "at most $most" --vocab-size "$((most + 1))" --out u.json text.txt
