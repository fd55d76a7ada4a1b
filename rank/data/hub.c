/* Encodes text: cuts it into pieces, and merges each. */
#include "hub.h"

#include <string.h>

#include "base/assert.h"
#include "base/grow.h"
#include "base/utf8.h"
#include "hub_parts.h"
#include "hub_spaces.h"

enum { TEXT_BYTES_MAX = 1 << 30, ROOM_MIN = 256 };

hub_merge *hub_find_merge(const rank_tokenizer *self, int32_t left, int32_t right)
{
    const uint64_t pair = (uint64_t)(uint32_t)left << 32 | (uint32_t)right;
    size_t at = (size_t)((pair * UINT64_C(0x9e3779b97f4a7c15)) >> 32) & self->merge_mask;
    while (self->merges[at].left != HUB_NONE &&
           (self->merges[at].left != left || self->merges[at].right != right)) {
        at = (at + 1) & self->merge_mask;
    }
    return &self->merges[at];
}

int32_t hub_find_text(const rank_tokenizer *self, const uint8_t *bytes, size_t size_bytes,
                      size_t *entry)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325); /* FNV-1a */
    for (size_t i = 0; i < size_bytes; i++) {
        hash = (hash ^ bytes[i]) * UINT64_C(0x100000001b3);
    }
    size_t at = (size_t)(hash ^ hash >> 32) & self->text_mask;
    while (self->text_ids[at] != HUB_NONE) {
        const hub_token *token = &self->tokens[self->text_ids[at]];
        if (token->size_bytes == size_bytes &&
            memcmp(self->bytes + token->offset, bytes, size_bytes) == 0) {
            break;
        }
        at = (at + 1) & self->text_mask;
    }
    *entry = at;
    return self->text_ids[at];
}

/* What is encoded, and where to. */
typedef struct encoding {
    rank_tokenizer *self;
    bool special; /* special tokens in the text become their ids, as other added ones always do */
    rank_tokenizer_place place;
    const uint8_t *begin;    /* of the text, */
    size_t bytes;            /* its length, */
    const uint32_t *origins; /* and its bytes' origins, or NULL */
    rank_ids *ids;
    rank_tokenizer_take take; /* gets the pieces in place of merges; or NULL */
    void *context;            /* its first argument */
    base_error *reterr;
} encoding;

static void put(const encoding *of, int32_t id)
{
    if (of->ids->count < of->ids->capacity) {
        of->ids->at[of->ids->count] = id;
    }
    of->ids->count++;
}

static bool comes_first(const hub_candidate *a, const hub_candidate *b)
{
    return a->rank != b->rank ? a->rank < b->rank : a->at < b->at;
}

static void heap_push(hub_candidate *heap, size_t *count, hub_candidate made)
{
    size_t at = (*count)++;
    while (at > 0 && comes_first(&made, &heap[(at - 1) / 2])) {
        heap[at] = heap[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    heap[at] = made;
}

static hub_candidate heap_pop(hub_candidate *heap, size_t *count)
{
    const hub_candidate first = heap[0];
    const hub_candidate last = heap[--*count];
    size_t at = 0;
    for (size_t child = 1; child < *count; child = 2 * at + 1) {
        child += child + 1 < *count && comes_first(&heap[child + 1], &heap[child]);
        if (!comes_first(&heap[child], &last)) {
            break;
        }
        heap[at] = heap[child];
        at = child;
    }
    heap[at] = last;
    return first;
}

/* Notes the merge of the part with the one behind it, if there is one. */
static void consider(const rank_tokenizer *self, int32_t at, size_t *count)
{
    const int32_t next = at != HUB_NONE ? self->parts[at].next : HUB_NONE;
    if (next == HUB_NONE) {
        return;
    }
    const int32_t left = self->parts[at].id;
    const int32_t right = self->parts[next].id;
    const hub_merge *merge = hub_find_merge(self, left, right);
    if (merge->left != HUB_NONE) {
        heap_push(self->heap, count, (hub_candidate){merge->rank, at, left, right, merge->made});
    }
}

/* Makes all merges of a piece, the one of the lowest rank first, and of equals the one furthest
 * left. Of a piece of n bytes there are n - 1 candidates at first, and two more for each merge. */
static void merge_parts(rank_tokenizer *self, size_t part_count)
{
    size_t count = 0;
    for (size_t i = 0; i + 1 < part_count; i++) {
        consider(self, (int32_t)i, &count);
    }
    while (count > 0) {
        const hub_candidate best = heap_pop(self->heap, &count);
        hub_part *left = &self->parts[best.at];
        if (left->id != best.left || left->next == HUB_NONE ||
            self->parts[left->next].id != best.right) {
            continue; /* one of the two has been merged since */
        }
        hub_part *right = &self->parts[left->next];
        left->id = best.made;
        left->next = right->next;
        right->id = HUB_NONE;
        if (left->next != HUB_NONE) {
            self->parts[left->next].before = best.at;
        }
        consider(self, best.at, &count);
        consider(self, left->before, &count);
    }
}

static base_status make_room(rank_tokenizer *self, size_t needed, base_error *reterr)
{
    size_t room = self->room;
    hub_part *parts = base_reserve(self->parts, 0, needed, &room, ROOM_MIN, sizeof *parts);
    self->parts = parts != NULL ? parts : self->parts;
    room = self->room;
    hub_candidate *heap = base_reserve(self->heap, 0, needed, &room, ROOM_MIN, 3 * sizeof *heap);
    self->heap = heap != NULL ? heap : self->heap;
    if (parts == NULL || heap == NULL) {
        return base_fail(reterr, BASE_ERR_MEMORY, "no memory to tokenize a word of %zu bytes",
                         needed);
    }
    self->room = room;
    return BASE_OK;
}

/* The place behind the character at `at`, as far as it is one. */
static size_t behind_character(const uint8_t *text, size_t text_bytes, size_t at)
{
    do {
        at++;
    } while (at < text_bytes && (text[at] & 0xc0) == 0x80);
    return at;
}

static size_t add_part(rank_tokenizer *self, int32_t id, size_t count)
{
    self->parts[count] = (hub_part){id, (int32_t)count - 1, (int32_t)count + 1};
    return count + 1;
}

/* The parts of a piece before any merge: its bytes; or its characters, and the bytes of one that is no token.
 * Returns how many there are. */
static size_t begin_parts(rank_tokenizer *self, const uint8_t *piece, size_t piece_bytes)
{
    size_t count = 0;
    size_t entry = 0;
    for (size_t at = 0; at < piece_bytes;) {
        const size_t end = self->spaces ? behind_character(piece, piece_bytes, at) : at + 1;
        const int32_t character =
            self->spaces ? hub_find_text(self, piece + at, end - at, &entry) : HUB_NONE;
        if (character != HUB_NONE) {
            count = add_part(self, character, count);
            at = end;
        }
        for (; at < end; at++) {
            if (self->byte_ids[piece[at]] != HUB_NONE) { /* the library drops what has no token */
                count = add_part(self, self->byte_ids[piece[at]], count);
            }
        }
    }
    return count;
}

static base_status encode_piece(const encoding *of, const uint8_t *piece, size_t piece_bytes)
{
    rank_tokenizer *self = of->self;
    size_t entry = 0;
    const int32_t whole = self->whole_first || piece_bytes == 1
                              ? hub_find_text(self, piece, piece_bytes, &entry)
                              : HUB_NONE;
    if (whole != HUB_NONE) {
        put(of, whole);
        return BASE_OK;
    }
    const base_status status = make_room(self, piece_bytes, of->reterr);
    if (status != BASE_OK) {
        return status;
    }
    const size_t count = begin_parts(self, piece, piece_bytes);
    if (count == 0) {
        return BASE_OK;
    }
    self->parts[count - 1].next = HUB_NONE;
    merge_parts(self, count);
    for (int32_t at = 0; at != HUB_NONE; at = self->parts[at].next) {
        put(of, self->parts[at].id);
    }
    return BASE_OK;
}

/* The next match of a step's expression, from `from` on. False: there is none, or *status says what
 * is wrong. */
static bool next_match(const encoding *of, int step, const uint8_t *text, size_t text_bytes,
                       size_t from, size_t *begin, size_t *end, base_status *status)
{
    const rank_tokenizer *self = of->self;
    int found =
        pcre2_match(self->splits[step], text, text_bytes, from, 0, self->match, self->limits);
    if (found == PCRE2_ERROR_JIT_STACKLIMIT) { /* a repeated group; the slower way takes the heap */
        found = pcre2_match(self->splits[step], text, text_bytes, from, PCRE2_NO_JIT, self->match,
                            self->limits);
    }
    if (found == PCRE2_ERROR_NOMATCH) {
        return false;
    }
    if (found < 0) {
        *status = base_fail(of->reterr, BASE_ERR_LIMIT,
                            "the tokenizer's expression %d takes too long on a text, or too much "
                            "memory",
                            step + 1);
        return false;
    }
    const PCRE2_SIZE *match = pcre2_get_ovector_pointer(self->match);
    *begin = match[0];
    *end = match[1];
    BASE_ASSERT(*begin >= from); /* no \K: hub_split.c has refused it */
    BASE_ASSERT(*end >= *begin);
    return true;
}

/* Whether a step drops what its expression does not match. Bytes that are no UTF-8, which no expression matches, stay. */
static bool is_dropped(const encoding *of, int step, const uint8_t *text, size_t text_bytes)
{
    return of->self->drops[step] && base_utf8_valid((const char *)text, text_bytes);
}

/* Cuts a text at its matches, and what lies between them, for the next step. An empty match cuts
 * too, but not directly behind another one. */
static base_status split(const encoding *of, int step, const uint8_t *text, size_t text_bytes)
{
    base_status status = BASE_OK;
    size_t done = 0;
    size_t from = 0;
    size_t begin = 0;
    size_t end = 0;
    bool matched = false;
    if (text_bytes == 0) {
        return BASE_OK;
    }
    if (step == of->self->split_count) {
        return of->take != NULL ? of->take(of->context, text, text_bytes, of->reterr)
                                : encode_piece(of, text, text_bytes);
    }
    while (status == BASE_OK && from < text_bytes &&
           next_match(of, step, text, text_bytes, from, &begin, &end, &status)) {
        if (end == begin && matched && end == done) {
            from = behind_character(text, text_bytes, end);
            continue;
        }
        if (!is_dropped(of, step, text + done, begin - done)) {
            status = split(of, step + 1, text + done, begin - done);
        }
        if (status == BASE_OK) {
            status = split(of, step + 1, text + begin, end - begin);
        }
        done = from = end;
        matched = true;
    }
    return status == BASE_OK && !is_dropped(of, step, text + done, text_bytes - done)
               ? split(of, step + 1, text + done, text_bytes - done)
               : status;
}

/* Whether a special token may have these bytes. Those of a copy whose letters NFC has changed have no origins. */
static bool may_be_special(const encoding *of, const uint8_t *at, size_t bytes)
{
    if (of->special || of->origins == NULL || at < of->begin ||
        at + bytes > of->begin + of->bytes) {
        return of->special;
    }
    for (size_t i = 0; i < bytes; i++) {
        if (of->origins[(size_t)(at - of->begin) + i] != 0) {
            return false;
        }
    }
    return true;
}

/* The longest added token at the text's begin, of those that this pass looks for; HUB_NONE: there is none. `bytes`: how many of
 * the text it takes. */
static int32_t added_token(const encoding *of, bool late, const uint8_t *text, size_t text_bytes,
                           size_t *bytes)
{
    const rank_tokenizer *self = of->self;
    const size_t before = late && self->prepend == HUB_PREPEND_ALWAYS ? 1 : 0;
    int32_t found = HUB_NONE;
    if (before > 0 && text[0] != ' ') {
        return HUB_NONE;
    }
    hub_added_search search = hub_added_at(self, text + before, text_bytes - before);
    const hub_added *one = NULL;
    while ((one = hub_added_next(&search)) != NULL) {
        const hub_token *token = &self->tokens[one->id];
        if (token->late == late &&
            (found == HUB_NONE || token->size_bytes > self->tokens[found].size_bytes) &&
            (!token->special || may_be_special(of, text + before, token->size_bytes))) {
            found = one->id;
            *bytes = token->size_bytes + before;
        }
    }
    return found;
}

typedef base_status (*between)(const encoding *of, const uint8_t *text, size_t text_bytes);

/* Cuts a text at added tokens, and has what lies between them encoded. */
static base_status cut(const encoding *of, bool late, const uint8_t *text, size_t text_bytes,
                       between encode)
{
    base_status status = BASE_OK;
    size_t done = 0;
    for (size_t at = 0; status == BASE_OK && at < text_bytes;) {
        size_t bytes = 0;
        const int32_t id = added_token(of, late, text + at, text_bytes - at, &bytes);
        if (id == HUB_NONE) {
            at++;
            continue;
        }
        const hub_token *token = &of->self->tokens[id];
        const size_t before =
            at > done ? at - done : 0; /* 0: in the space that the last one took */
        const size_t left = token->takes_left ? hub_spaces_trailing(text + done, before) : 0;
        status = encode(of, text + done, before - left);
        put(of, id);
        at += bytes;
        done = at + (token->takes_right ? hub_spaces_leading(text + at, text_bytes - at) : 0);
    }
    return status == BASE_OK ? encode(of, text + done, text_bytes - done) : status;
}

/* The space before a stretch of the text, and spaces for marks in it. spaced: the same for what comes out. */
static base_status put_space(const encoding *of, const uint8_t **text, size_t *text_bytes,
                             encoding *spaced)
{
    const bool prepends =
        hub_spaces_prepends(of->self, of->place, *text == of->begin, *text, *text_bytes);
    *spaced = *of;
    spaced->origins = of->origins != NULL ? of->origins + (*text - of->begin) : NULL;
    const base_status status =
        hub_spaces_put(of->self, prepends, text, text_bytes, &spaced->origins, of->reterr);
    spaced->begin = *text;
    spaced->bytes = *text_bytes;
    return status;
}

static base_status encode_plain(const encoding *of, const uint8_t *text, size_t text_bytes)
{
    rank_tokenizer *self = of->self;
    encoding spaced;
    base_status status = BASE_OK;
    if (!self->spaces) {
        return split(of, 0, text, text_bytes);
    }
    if (self->prepend != HUB_PREPEND_ALWAYS) {
        status = put_space(of, &text, &text_bytes, &spaced);
    }
    for (size_t begin = 0; status == BASE_OK && begin < text_bytes;) {
        const size_t end = hub_spaces_word_end(self, text, text_bytes, begin);
        status = encode_piece(of, text + begin, end - begin);
        begin = end;
    }
    return status;
}

/* What lies between tokens that are looked for before a text is normalised. */
static base_status encode_raw(const encoding *of, const uint8_t *text, size_t text_bytes)
{
    rank_tokenizer *self = of->self;
    encoding within = *of;
    base_status status = BASE_OK;
    if (self->normalises) {
        const uint8_t *raw = text;
        const size_t raw_bytes = text_bytes;
        status = rank_nfc_of(&self->nfc, raw, raw_bytes, &text, &text_bytes, of->reterr);
        const bool is_same =
            raw_bytes > 0 && text_bytes == raw_bytes && memcmp(text, raw, raw_bytes) == 0;
        text = is_same ? raw : text; /* whose bytes have origins */
    } else if (self->prepend == HUB_PREPEND_ALWAYS) {
        status = put_space(of, &text, &text_bytes, &within);
    }
    return status != BASE_OK ? status : cut(&within, true, text, text_bytes, encode_plain);
}

static base_status encode_all(const encoding *of, const char *text, size_t text_bytes)
{
    of->ids->count = 0;
    if (text_bytes > TEXT_BYTES_MAX) {
        return base_fail(of->reterr, BASE_ERR_LIMIT, "a text of %zu bytes is too long to tokenize",
                         text_bytes);
    }
    return cut(of, false, (const uint8_t *)text, text_bytes, encode_raw);
}

base_status rank_tokenizer_encode_text(rank_tokenizer *tokenizer, const rank_tokenizer_text *text,
                                       rank_ids *ids, base_error *reterr)
{
    const encoding of = {.self = tokenizer,
                         .special = tokenizer->allows_special,
                         .place = text->place,
                         .begin = (const uint8_t *)text->at,
                         .bytes = text->bytes,
                         .origins = text->origins,
                         .ids = ids,
                         .reterr = reterr};
    return encode_all(&of, text->at, text->bytes);
}

base_status rank_tokenizer_encode(rank_tokenizer *tokenizer, const char *text, size_t text_bytes,
                                  rank_ids *ids, base_error *reterr)
{
    return rank_tokenizer_encode_text(
        tokenizer, &(rank_tokenizer_text){.at = text, .bytes = text_bytes}, ids, reterr);
}

base_status rank_tokenizer_cut(rank_tokenizer *tokenizer, const char *text, size_t text_bytes,
                               rank_tokenizer_take take, void *context, base_error *reterr)
{
    rank_ids none = {.capacity = 0}; /* added tokens go there */
    const encoding of = {
        .self = tokenizer, .ids = &none, .take = take, .context = context, .reterr = reterr};
    return encode_all(&of, text, text_bytes);
}
