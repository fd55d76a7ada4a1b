/* What tokenizers of SentencePiece's kind do otherwise: a token is made of characters, spaces among them, and a
 * character that is none becomes its bytes. Called by hub.c and hub_read.c. Sources: Kudo and Richardson,
 * "SentencePiece" (2018); what Hugging Face's library makes of such a file. */
#include "hub_spaces.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

/* U+2581. In a vocabulary it stands for a space, and in a text it is one. */
static const char MARK[] = "\xe2\x96\x81";
enum { MARK_BYTES = sizeof MARK - 1 };

static bool is_text(const json_t *object, const char *key, const char *text)
{
    const char *found = json_string_value(json_object_get(object, key));
    return found != NULL && strcmp(found, text) == 0;
}

/* ---- the file ---- */

base_status hub_spaces_read_normalizer(rank_tokenizer *self, const json_t *step, base_error *reterr)
{
    if (hub_has_type(step, "Prepend") && is_text(step, "prepend", MARK) &&
        self->prepend == HUB_PREPEND_NEVER) {
        self->prepend = HUB_PREPEND_ALWAYS;
        return BASE_OK;
    }
    if (hub_has_type(step, "Replace") && is_text(step, "content", MARK) &&
        is_text(json_object_get(step, "pattern"), "String", " ")) {
        self->marks_spaces = true;
        return BASE_OK;
    }
    return hub_refuse("normalizer", step, reterr);
}

static base_status read_metaspace(rank_tokenizer *self, const json_t *step, base_error *reterr)
{
    const json_t *split = json_object_get(step, "split");
    const json_t *scheme = json_object_get(step, "prepend_scheme");
    const bool adds =
        json_object_get(step, "add_prefix_space") == NULL || !hub_is_off(step, "add_prefix_space");
    if (!is_text(step, "replacement", MARK) || self->prepend != HUB_PREPEND_NEVER) {
        return hub_refuse("pre-tokenizer", step, reterr);
    }
    self->marks_spaces = true;
    self->words = split == NULL || json_is_true(split) ? HUB_WORDS_EACH : self->words;
    if (scheme == NULL || is_text(step, "prepend_scheme", "always")) {
        self->prepend = adds ? HUB_PREPEND_MISSING : HUB_PREPEND_NEVER;
    } else if (is_text(step, "prepend_scheme", "first")) {
        self->prepend = HUB_PREPEND_FIRST;
    } else if (!is_text(step, "prepend_scheme", "never")) {
        return hub_refuse("pre-tokenizer", step, reterr);
    }
    return BASE_OK;
}

/* Gemma's: it cuts at spaces, of which its normalizer has left none. */
static bool cuts_nothing(const rank_tokenizer *self, const json_t *step)
{
    return self->marks_spaces && hub_has_type(step, "Split") &&
           is_text(json_object_get(step, "pattern"), "String", " ");
}

base_status hub_spaces_read_steps(rank_tokenizer *self, const json_t *steps, base_error *reterr)
{
    const json_t *list = json_object_get(steps, "pretokenizers");
    const json_t *step = hub_has_type(steps, "Sequence") && json_array_size(list) == 1
                             ? json_array_get(list, 0)
                             : steps;
    base_status status = BASE_OK;
    if (hub_has_type(step, "Metaspace")) {
        status = read_metaspace(self, step, reterr);
    } else if (step != NULL && !json_is_null(step) && !cuts_nothing(self, step)) {
        status = hub_refuse("pre-tokenizer", step, reterr);
    }
    return status != BASE_OK || self->marks_spaces
               ? status
               : base_fail(reterr, BASE_ERR_UNSUPPORTED,
                           "its tokens for bytes come without marks "
                           "for spaces");
}

int hub_spaces_byte(const char *text)
{
    unsigned value = 0;
    if (strlen(text) != strlen("<0x00>") || strncmp(text, "<0x", 3) != 0 || text[5] != '>') {
        return HUB_NONE;
    }
    for (int i = 3; i < 5; i++) {
        const char digit = text[i];
        const bool is_number = digit >= '0' && digit <= '9';
        if (!is_number && (digit < 'A' || digit > 'F')) {
            return HUB_NONE;
        }
        value = value << 4 | (unsigned)(is_number ? digit - '0' : digit - 'A' + 10);
    }
    return (int)value;
}

size_t hub_spaces_mark(const uint8_t *text, size_t text_bytes)
{
    return text_bytes >= MARK_BYTES && memcmp(text, MARK, MARK_BYTES) == 0 ? MARK_BYTES : 0;
}

size_t hub_spaces_from_marks(const char *text, size_t text_bytes, uint8_t *bytes)
{
    size_t count = 0;
    for (size_t i = 0; i < text_bytes;) {
        const size_t mark = hub_spaces_mark((const uint8_t *)text + i, text_bytes - i);
        bytes[count++] = mark > 0 ? ' ' : (uint8_t)text[i];
        i += mark > 0 ? mark : 1;
    }
    return count;
}

base_status hub_spaces_find_words(rank_tokenizer *self, base_error *reterr)
{
    for (int byte = 0; byte < HUB_BYTES; byte++) {
        if (self->byte_ids[byte] == HUB_NONE) {
            return base_fail(reterr, BASE_ERR_UNSUPPORTED,
                             "its byte_fallback has no token <0x%02X>", (unsigned)byte);
        }
    }
    size_t space_entry = 0;
    if (hub_find_text(self, (const uint8_t *)" ", 1, &space_entry) == HUB_NONE) {
        return base_fail(reterr, BASE_ERR_UNSUPPORTED, "it has no token for a space (U+2581)");
    }
    self->words = HUB_WORDS_BEGIN;
    for (size_t entry = 0; entry <= self->text_mask; entry++) {
        const hub_token *token =
            self->text_ids[entry] != HUB_NONE ? &self->tokens[self->text_ids[entry]] : NULL;
        const uint8_t *bytes = self->bytes + (token != NULL ? token->offset : 0);
        for (size_t i = 1; token != NULL && i < token->size_bytes; i++) {
            if (bytes[i] == ' ' && bytes[i - 1] != ' ') {
                self->words = HUB_WORDS_NONE;
            }
        }
    }
    return BASE_OK;
}

/* ---- texts ---- */

bool hub_spaces_prepends(const rank_tokenizer *self, rank_tokenizer_place place, bool is_first,
                         const uint8_t *text, size_t text_bytes)
{
    const bool has_space =
        text_bytes > 0 && (text[0] == ' ' || hub_spaces_mark(text, text_bytes) > 0);
    if (text_bytes == 0 || (is_first && place == RANK_TOKENIZER_GOES_ON)) {
        return false;
    }
    return self->prepend == HUB_PREPEND_ALWAYS ||
           (self->prepend == HUB_PREPEND_MISSING && !has_space) ||
           (self->prepend == HUB_PREPEND_FIRST && !has_space && is_first &&
            place == RANK_TOKENIZER_BEGINS);
}

static base_status make_room(rank_tokenizer *self, size_t needed, base_error *reterr)
{
    if (self->spaced_room >= needed) {
        return BASE_OK;
    }
    uint8_t *spaced = realloc(self->spaced, 2 * needed);
    self->spaced = spaced != NULL ? spaced : self->spaced;
    uint32_t *origins = realloc(self->spaced_origins, 2 * needed * sizeof *origins);
    self->spaced_origins = origins != NULL ? origins : self->spaced_origins;
    if (spaced == NULL || origins == NULL) {
        return base_fail(reterr, BASE_ERR_MEMORY, "no memory to tokenize a text of %zu bytes",
                         needed - 1);
    }
    self->spaced_room = 2 * needed;
    return BASE_OK;
}

/* The origins of what hub_spaces_from_marks makes of the text. */
static void put_origins(const uint8_t *text, size_t text_bytes, const uint32_t *from, uint32_t *to)
{
    for (size_t i = 0; i < text_bytes;) {
        const size_t mark = hub_spaces_mark(text + i, text_bytes - i);
        *to++ = from[i];
        i += mark > 0 ? mark : 1;
    }
}

base_status hub_spaces_put(rank_tokenizer *self, bool prepends, const uint8_t **text,
                           size_t *text_bytes, const uint32_t **origins, base_error *reterr)
{
    const base_status status = make_room(self, *text_bytes + 1, reterr);
    if (status != BASE_OK) {
        return status;
    }
    self->spaced[0] = ' ';
    const size_t before = prepends ? 1 : 0;
    if (*origins != NULL) {
        self->spaced_origins[0] = 0;
        put_origins(*text, *text_bytes, *origins, self->spaced_origins + before);
        *origins = self->spaced_origins;
    }
    *text_bytes =
        before + hub_spaces_from_marks((const char *)*text, *text_bytes, self->spaced + before);
    *text = self->spaced;
    return BASE_OK;
}

size_t hub_spaces_word_end(const rank_tokenizer *self, const uint8_t *text, size_t text_bytes,
                           size_t begin)
{
    for (size_t at = begin + 1; self->words != HUB_WORDS_NONE && at < text_bytes; at++) {
        if (text[at] == ' ' && (self->words == HUB_WORDS_EACH || text[at - 1] != ' ')) {
            return at;
        }
    }
    return text_bytes;
}

/* Bytes of the white space, one character, at `at`; 0: there is none. */
static size_t space_at(const uint8_t *at, size_t bytes)
{
    static const char *const wide[] = {"\xc2\x85", "\u00a0", "\u1680", "\u2000", "\u2001",
                                       "\u2002",   "\u2003", "\u2004", "\u2005", "\u2006",
                                       "\u2007",   "\u2008", "\u2009", "\u200a", "\u2028",
                                       "\u2029",   "\u202f", "\u205f", "\u3000"};
    if (bytes > 0 && (at[0] == ' ' || (at[0] >= '\t' && at[0] <= '\r'))) {
        return 1;
    }
    for (size_t i = 0; i < sizeof wide / sizeof *wide; i++) {
        const size_t length = strlen(wide[i]);
        if (length <= bytes && memcmp(at, wide[i], length) == 0) {
            return length;
        }
    }
    return 0;
}

size_t hub_spaces_leading(const uint8_t *text, size_t text_bytes)
{
    size_t count = 0;
    for (size_t more = 1; more > 0; count += more) {
        more = space_at(text + count, text_bytes - count);
    }
    return count;
}

size_t hub_spaces_trailing(const uint8_t *text, size_t text_bytes)
{
    size_t end = text_bytes;
    for (size_t length = 1; length <= 3 && length <= end; length++) {
        if (space_at(text + end - length, length) == length) {
            end -= length;
            length = 0;
        }
    }
    return text_bytes - end;
}
