#!/usr/bin/env bash
# tokenizer-encode as a user calls it: what it prints and writes, whatever the threads, and what it refuses.
#   encode.sh BIN TOKENIZER SCRATCH
# TOKENIZER puts a space before a text.
set -euo pipefail

PATH=$1:$PATH
spaced=$2
rm -rf "$3"
mkdir -p "$3"
cd "$3"

fail() {
    echo "tokenizer-encode: $*"
    exit 1
}

refused() { # EXIT-CODE MESSAGE ARGUMENTS...
    local expected=$1 message=$2 code=0
    shift 2
    tokenizer-encode "$@" >out 2>err || code=$?
    [ "$code" -eq "$expected" ] || fail "$*: exit code $code, expected $expected: $(cat err)"
    [ "$(wc -l <err)" -eq 1 ] || fail "$*: more than one line: $(cat err)"
    grep -qF -- "$message" err || fail "$*: $(cat err), expected $message"
    [ ! -s out ] || fail "$*: printed $(cat out)"
}

# The header's text, and the tokens as numbers.
header() {
    local bytes
    bytes=$(od -An -t u8 -N 8 "$1" | tr -d ' ')
    [ $(((bytes + 8) % 8)) -eq 0 ] || fail "$1: the tokens begin at byte $((bytes + 8))"
    head -c $((bytes + 8)) "$1" | tail -c "$bytes"
}
tokens() { # FILE BYTES-OF-A-TOKEN
    local bytes
    bytes=$(od -An -t u8 -N 8 "$1" | tr -d ' ')
    tail -c +$((bytes + 9)) "$1" | od -An -v -t "u$2" -w"$2" | tr -d ' ' | tr '\n' ' '
}

for ((i = 0; i < 90000; i++)); do echo "to be, or not to be: that is the question, line $((i * i % 977))"; done >text.txt
head -n 100 text.txt >short.txt
printf '{"text": "to be or not"}\n{"wrong": "he go", "right": "he goes"}\n' >data.jsonl
tokenizer-learn --vocab-size 280 --out t.json short.txt >/dev/null

tokenizer-encode --help | grep "^Usage: tokenizer-encode" >/dev/null || fail "no help"
tokenizer-encode --tokenizer t.json --out made/here/a.safetensors text.txt data.jsonl short.txt >out 2>err || fail "$(cat err)"
grep -qE "^made/here/a.safetensors: [0-9]+ tokens of 4 texts with [0-9]+ bytes, [0-9.]+ bytes each$" out || fail "printed $(cat out)"
[ ! -s err ] || fail "a short run logs $(cat err)"
[ "$(ls made/here)" = a.safetensors ] || fail "it leaves $(ls made/here)"
digest=$(sha256sum t.json | cut -d' ' -f1)
header made/here/a.safetensors | grep -qF "\"tokenizer_sha256\":\"$digest\",\"documents\":\"4\"" || fail "$(header made/here/a.safetensors)"
header made/here/a.safetensors | grep -qF '"sources":"[\"text.txt\",\"data.jsonl\",\"short.txt\"]"' || fail "$(header made/here/a.safetensors)"

# Ended by a signal, it leaves nothing.
mkfifo pipe.txt
for signal in INT TERM HUP; do
    code=0
    env --default-signal=INT,TERM,HUP tokenizer-encode --tokenizer t.json --out ended/a.safetensors pipe.txt >out 2>err &
    exec 3>pipe.txt # it waits for more
    for ((i = 0; i < 3000; i++)); do [ ! -e ended/a.safetensors.tmp ] || break; sleep 0.01; done
    [ -e ended/a.safetensors.tmp ] || fail "no temporary file: $(cat err)"
    kill -s $signal $!
    wait $! || code=$?
    exec 3>&-
    [ $code -eq $((128 + $(kill -l $signal))) ] || fail "SIG$signal: exit code $code"
    [ -z "$(ls ended)" ] || fail "SIG$signal leaves $(ls ended)"
done

# 5 MB are several parts, and threads finish them in any order.
for threads in 1 2 7; do
    tokenizer-encode --tokenizer t.json --threads $threads --out "$threads.safetensors" text.txt data.jsonl short.txt >/dev/null
    cmp made/here/a.safetensors "$threads.safetensors" || fail "$threads threads make another file"
done

# A text that is read in parts begins once: its lines have as many tokens as the second of two.
counts=()
for lines in 1 2 90000; do
    yes "to be, or not to be" | head -n "$lines" >same.txt || true
    tokenizer-encode --tokenizer "$spaced" --out same.safetensors same.txt >/dev/null
    counts+=("$(tokens same.safetensors 2 | wc -w)")
done
[ "${counts[2]}" -eq $((counts[1] + 89998 * (counts[1] - counts[0]))) ] || fail "tokens of 1, 2 and 90000 lines: ${counts[*]}"

# Texts follow each other, each with the end token, which is the last of the vocabulary.
tokenizer-encode --tokenizer t.json --out lines.safetensors data.jsonl >/dev/null
tokenizer-encode --tokenizer t.json --out plain.safetensors short.txt >/dev/null
tokenizer-encode --tokenizer t.json --out both.safetensors data.jsonl <(cat short.txt) >/dev/null || fail "a pipe is no text"
[ "$(tokens both.safetensors 2)" = "$(tokens lines.safetensors 2)$(tokens plain.safetensors 2)" ] || fail "a text changes with its neighbours"
[ "$(tokens lines.safetensors 2 | grep -o '\<279\>' | wc -l)" -eq 2 ] || fail "ends: $(tokens lines.safetensors 2)"
printf 'a\0' | tr -d '\0' >a.txt
tokenizer-encode --tokenizer t.json --out a.safetensors a.txt >/dev/null
[ "$(tokens a.safetensors 2)" = "$((97 - 33)) 279 " ] || [ "$(tokens a.safetensors 2)" = "97 279 " ] || fail "a is $(tokens a.safetensors 2)"

# A vocabulary of more than 65536 is written as U32: here one added token stands far behind the others.
sed 's/"id": *279/"id": 70000/; s/"<|endoftext|>": *279/"<|endoftext|>": 70000/' t.json >far.json
if ! cmp -s t.json far.json && tokenizer-encode --tokenizer far.json --out far.safetensors a.txt >/dev/null 2>err; then
    header far.safetensors | grep -qF '"dtype":"U32","shape":[2],"data_offsets":[0,8]' || fail "$(header far.safetensors)"
    [ "$(tokens far.safetensors 4 | cut -d' ' -f2)" = 70000 ] || fail "far: $(tokens far.safetensors 4)"
else
    fail "no vocabulary of U32: $(cat err)"
fi

refused 2 "at least one text" --tokenizer t.json --out x.safetensors
refused 2 "at least one text" --out x.safetensors a.txt
refused 2 "at least one text" --tokenizer t.json a.txt
for threads in 0 257 many; do
    refused 2 "a number from 1 to 256" --threads "$threads" --tokenizer t.json --out x.safetensors a.txt
done
tokenizer-encode --merges 3 2>err && fail "an unknown option is taken"
grep -q "tokenizer-encode --help" err || fail "no hint: $(cat err)"

refused 1 "none.txt: No such file" --tokenizer t.json --out x.safetensors a.txt none.txt
refused 1 "none.json: No such file" --tokenizer none.json --out x.safetensors a.txt
refused 1 "ends in .safetensors" --tokenizer t.json --out x.bin a.txt
refused 1 "is a file of tokens by its name" --tokenizer t.json --out x.safetensors a.safetensors
printf '{"text": "a"}\n{"text": 1}\n' >bad.jsonl
refused 1 'bad.jsonl:2: "text" is not a string' --tokenizer t.json --out x.safetensors a.txt bad.jsonl
printf '{"prompt": "a", "completion": "b"}\n' >asked.jsonl
refused 1 "asked.jsonl:1: prompts and chats" --tokenizer t.json --out x.safetensors asked.jsonl
: >empty.txt
refused 1 "no text in these files" --tokenizer t.json --out x.safetensors empty.txt empty.txt
printf 'a\0b' >nul.txt
refused 1 "byte 2 is a NUL" --tokenizer t.json --out x.safetensors nul.txt
sed 's/<|endoftext|>/<|other|>/g' t.json >endless.json
refused 1 "no <|endoftext|>, <|end_of_text|> or </s>" --tokenizer endless.json --out x.safetensors a.txt
ln -s /dev/full full.safetensors
refused 1 "written only forwards" --tokenizer t.json --out full.safetensors a.txt
# What cannot be written is no flaw of a line that is read meanwhile.
awk '{ print "{\"text\": \"" $0 "\"}" }' text.txt >long.jsonl
(trap '' XFSZ && ulimit -f 64 && refused 1 "tokenizer-encode: error: cannot write x.safetensors: File too large" --threads 1 --tokenizer t.json --out x.safetensors long.jsonl)
[ -z "$(ls x.safetensors* 2>/dev/null)" ] || fail "a refused run left a file"
