/* Reads how a tokenizer.json cuts a text into pieces. Called by hub_read.c. */
#include <jansson.h>
#include <string.h>

#include "hub_parts.h"
#include "hub_spaces.h"

enum { REASON_BYTES = 120 };

/* What ByteLevel cuts by when it uses its own expression: GPT-2's. */
static const char GPT2_PATTERN[] =
    "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";

bool hub_has_type(const json_t *object, const char *type)
{
    const char *found = json_string_value(json_object_get(object, "type"));
    return found != NULL && strcmp(found, type) == 0;
}

base_status hub_refuse(const char *what, const json_t *object, base_error *reterr)
{
    const char *type = json_string_value(json_object_get(object, "type"));
    return base_fail(reterr, BASE_ERR_UNSUPPORTED, "its %s %s is none that this program knows",
                     what, type != NULL ? type : "without a type");
}

bool hub_is_off(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    return value == NULL || json_is_null(value) || json_is_false(value) ||
           (json_is_string(value) && json_string_length(value) == 0);
}

base_status hub_each(rank_tokenizer *self, const json_t *what, const char *list, hub_read *read,
                     base_error *reterr)
{
    size_t index = 0;
    json_t *step = NULL;
    base_status status = BASE_OK;
    const json_t *steps = json_object_get(what, list);
    if (what == NULL || json_is_null(what)) {
        return BASE_OK;
    }
    if (!hub_has_type(what, "Sequence") || !json_is_array(steps)) {
        return read(self, what, reterr);
    }
    json_array_foreach(steps, index, step)
    {
        status = status == BASE_OK ? read(self, step, reterr) : status;
    }
    return status;
}

static base_status add_split(rank_tokenizer *self, const char *pattern, base_error *reterr)
{
    int code = 0;
    PCRE2_SIZE place = 0;
    if (self->split_count == HUB_SPLITS_MAX) {
        return base_fail(reterr, BASE_ERR_LIMIT, "more than %d pre-tokenizers", HUB_SPLITS_MAX);
    }
    pcre2_code *made = pcre2_compile(
        (PCRE2_SPTR)pattern, PCRE2_ZERO_TERMINATED,
        PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_MATCH_INVALID_UTF, &code, &place, NULL);
    if (made == NULL) {
        PCRE2_UCHAR reason[REASON_BYTES] = "";
        (void)pcre2_get_error_message(code, reason, sizeof reason);
        return base_fail(reterr, BASE_ERR_INVALID, "its expression %s: %s at %zu", pattern,
                         (const char *)reason, (size_t)place);
    }
    (void)pcre2_jit_compile(made, PCRE2_JIT_COMPLETE); /* without it matching is slower */
    self->splits[self->split_count++] = made;
    return BASE_OK;
}

/* What an escape means otherwise in Oniguruma, or may mean; NULL: nothing. at: behind the backslash. */
static const char *foreign_escape(const char *at)
{
    const bool letter = (*at >= 'a' && *at <= 'z') || (*at >= 'A' && *at <= 'Z');
    const bool property = *at == 'p' || *at == 'P';
    if (property && at[1] == '{') { /* of a category: those of scripts are others in PCRE2 */
        const size_t bytes = strcspn(at + 2, "}");
        return bytes <= (at[2] == '^' ? 3 : 2) ? NULL : "a \\p{...} that is no general category";
    }
    if (*at == 'x' && at[1] == '{') {
        return NULL;
    }
    return letter && (property || strchr("dDsSnrtf", *at) == NULL) ? "an escape that is none of "
                                                                     "\\d \\D \\s \\S \\n \\r \\t "
                                                                     "\\f \\p{...} \\x{...}"
                                                                   : NULL;
}

/* The same of a group, behind its bracket. */
static const char *foreign_group(const char *at)
{
    const size_t flags = *at == '?' ? strspn(at + 1, "i-") : 0;
    const char next = at[1 + flags];
    const bool known =
        *at == '?' ? next != '\0' && strchr(flags > 0 ? ":)" : ":=!><#", next) != NULL : *at != '*';
    return known ? NULL : "a group of a kind, or with a flag, that is not known here";
}

/* The same of a repetition, behind its brace. */
static const char *foreign_repetition(const char *at)
{
    const size_t least = strspn(at, "0123456789");
    const size_t comma = at[least] == ',' ? 1 : 0;
    const size_t end = least + comma + strspn(at + least + comma, "0123456789");
    if (at[end] != '}' || end == 0) {
        return NULL; /* letters */
    }
    return least == 0 || at[end + 1] == '+' || (comma == 0 && at[end + 1] == '?')
               ? "a repetition {...} without a least number, or with + or ? behind it"
               : NULL;
}

/* What Oniguruma, whose expressions the file has, reads otherwise than PCRE2, though both accept it; or
 * NULL. */
static const char *find_foreign(const char *pattern)
{
    bool in_class = false;
    const char *found = NULL;
    for (const char *at = pattern; *at != '\0' && found == NULL; at++) {
        if (*at == '\\' && at[1] != '\0') {
            at++;
            found = foreign_escape(at);
        } else if (in_class) {
            found = *at == '['                     ? "a class in a class"
                    : at[0] == '&' && at[1] == '&' ? "&& in a class"
                                                   : NULL;
            in_class = *at != ']';
        } else if (*at == '[') {
            in_class = true;
            at += at[1] == '^';
            at += at[1] == ']'; /* as the first one it is a member */
        } else if (*at == '(') {
            found = foreign_group(at + 1);
        } else if (*at == '{') {
            found = foreign_repetition(at + 1);
        }
    }
    return found;
}

static base_status read_split(rank_tokenizer *self, const json_t *step, base_error *reterr)
{
    const char *pattern =
        json_string_value(json_object_get(json_object_get(step, "pattern"), "Regex"));
    const char *behavior = json_string_value(json_object_get(step, "behavior"));
    const bool drops = !hub_is_off(step, "invert"); /* removed is then what does not match */
    if (pattern == NULL || behavior == NULL ||
        strcmp(behavior, drops ? "Removed" : "Isolated") != 0) {
        return base_fail(reterr, BASE_ERR_UNSUPPORTED,
                         "a Split that is not by a Regex, and Isolated, or Removed and inverted");
    }
    const char *foreign = find_foreign(pattern);
    if (foreign != NULL) {
        return base_fail(reterr, BASE_ERR_UNSUPPORTED,
                         "its expression has %s, which other programs read otherwise: %s", foreign,
                         pattern);
    }
    const base_status status = add_split(self, pattern, reterr);
    if (status == BASE_OK) {
        self->drops[self->split_count - 1] = drops;
    }
    return status;
}

static base_status read_step(rank_tokenizer *self, const json_t *step, base_error *reterr)
{
    if (hub_has_type(step, "Split")) {
        return read_split(self, step, reterr);
    }
    if (hub_has_type(step, "Digits")) {
        return add_split(self, hub_is_off(step, "individual_digits") ? "\\p{N}+" : "\\p{N}",
                         reterr);
    }
    if (!hub_has_type(step, "ByteLevel")) {
        return hub_refuse("pre-tokenizer", step, reterr);
    }
    if (!hub_is_off(step, "add_prefix_space")) {
        return base_fail(reterr, BASE_ERR_UNSUPPORTED, "its ByteLevel adds a space before a text");
    }
    const json_t *own = json_object_get(step, "use_regex");
    return own == NULL || json_is_true(own) ? add_split(self, GPT2_PATTERN, reterr) : BASE_OK;
}

/* ByteLevel must be the last step: the vocabulary is in its alphabet, and a step behind it would cut
 * glyphs instead of the text. */
base_status hub_read_steps(rank_tokenizer *self, const json_t *root, base_error *reterr)
{
    size_t index = 0;
    json_t *step = NULL;
    base_status status = BASE_OK;
    const json_t *steps = json_object_get(root, "pre_tokenizer");
    bool bytes = hub_has_type(steps, "ByteLevel");
    if (self->spaces) {
        return hub_spaces_read_steps(self, steps, reterr);
    }
    if (!hub_has_type(steps, "Sequence")) {
        status = read_step(self, steps, reterr);
    } else {
        json_array_foreach(json_object_get(steps, "pretokenizers"), index, step)
        {
            if (status == BASE_OK && bytes) {
                status = hub_refuse("pre-tokenizer behind ByteLevel,", step, reterr);
            }
            status = status == BASE_OK ? read_step(self, step, reterr) : status;
            bytes = bytes || hub_has_type(step, "ByteLevel");
        }
    }
    return status != BASE_OK || bytes
               ? status
               : base_fail(reterr, BASE_ERR_UNSUPPORTED, "it is no byte-level BPE");
}
