/* Bills in JSON. A JSON library turns 0.1 into a double, and money is not kept in doubles: so every
 * number outside a string is put into quotes first, and arrives as the text it was.
 * Called by the readers of vendors' bills. */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "bills/json.h"

/* The number at text: RFC 8259's grammar. Its length; 0: there is none. */
static size_t number_length(const char *text)
{
    size_t i = text[0] == '-' ? 1 : 0;
    const size_t whole = strspn(text + i, "0123456789");
    if (whole == 0 || (whole > 1 && text[i] == '0')) {
        return 0;
    }
    i += whole;
    if (text[i] == '.') {
        const size_t fraction = strspn(text + i + 1, "0123456789");
        if (fraction == 0) {
            return 0;
        }
        i += 1 + fraction;
    }
    if (text[i] == 'e' || text[i] == 'E') {
        const size_t sign = text[i + 1] == '+' || text[i + 1] == '-' ? 1 : 0;
        const size_t digits = strspn(text + i + 1 + sign, "0123456789");
        if (digits == 0) {
            return 0;
        }
        i += 1 + sign + digits;
    }
    return i;
}

/* The string at text, with its quotes; 0: it does not end. */
static size_t string_length(const char *text, size_t text_bytes)
{
    for (size_t i = 1; i < text_bytes; i++) {
        if (text[i] == '\\') {
            i++;
        } else if (text[i] == '"') {
            return i + 1;
        }
    }
    return 0;
}

/* malloc'ed; NULL, with the reason, when the text cannot be JSON. */
static char *quote_numbers(const char *text, size_t *quoted_bytes, base_error *reterr)
{
    const size_t text_bytes = strlen(text);
    char *quoted = malloc(3 * text_bytes + 1);
    size_t used = 0;
    if (quoted == NULL) {
        (void)base_fail(reterr, BASE_ERR_MEMORY, "no memory for the bill");
        return NULL;
    }
    for (size_t i = 0; i < text_bytes;) {
        const bool number = text[i] == '-' || (text[i] >= '0' && text[i] <= '9');
        size_t length = 1;
        if (number) {
            length = number_length(text + i);
        } else if (text[i] == '"') {
            length = string_length(text + i, text_bytes - i);
        }
        if (length == 0) {
            (void)base_fail(reterr, BASE_ERR_INVALID, "bill: not JSON at byte %zu", i);
            free(quoted);
            return NULL;
        }
        if (number) {
            quoted[used++] = '"';
        }
        memcpy(quoted + used, text + i, length);
        used += length;
        if (number) {
            quoted[used++] = '"';
        }
        i += length;
    }
    *quoted_bytes = used;
    return quoted;
}

static base_status parse(const char *text, json_t **root, base_error *reterr)
{
    json_error_t error;
    size_t quoted_bytes = 0;
    base_error why = {.status = BASE_ERR_INVALID};
    char *quoted = quote_numbers(text, &quoted_bytes, &why);
    if (quoted == NULL) {
        return base_fail(reterr, why.status, "%s", why.message);
    }
    *root = json_loadb(quoted, quoted_bytes, JSON_REJECT_DUPLICATES, &error);
    free(quoted);
    return *root != NULL
               ? BASE_OK
               : base_fail(reterr, BASE_ERR_INVALID, "bill: line %d: %s", error.line, error.text);
}

/* The list of lines: the root itself, or the member of one of these names. */
static const json_t *lines_of(const json_t *root)
{
    static const char *const names[] = {"results", "records", "data", "invoices"};
    if (json_is_array(root)) {
        return root;
    }
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        const json_t *found = json_object_get(root, names[i]);
        if (json_is_array(found)) {
            return found;
        }
    }
    return NULL;
}

const char *bill_first_text(const json_t *object, const char *const *keys)
{
    for (; *keys != NULL; keys++) {
        const json_t *value = json_object_get(object, *keys);
        if (json_is_string(value)) {
            return json_string_value(value);
        }
    }
    return NULL;
}

/* The vendors bill in dollars and do not name them. A bill that names a currency is taken at its
 * word, in the line or for all lines. */
static const char *currency_of(const json_t *root, const json_t *object)
{
    const json_t *value = json_object_get(object, "currency");
    if (value == NULL || json_is_null(value)) {
        value = json_object_get(root, "currency");
    }
    if (value == NULL || json_is_null(value)) {
        return NULL;
    }
    return json_is_string(value) ? json_string_value(value) : "that it names";
}

base_status bill_read_json(const char *text, bill_line_reader read, bill_charges *charges,
                           base_error *reterr)
{
    json_t *root = NULL;
    base_status status = parse(text, &root, reterr);
    if (status != BASE_OK) {
        return status;
    }
    const json_t *lines = lines_of(root);
    if (lines == NULL) {
        status = base_fail(reterr, BASE_ERR_INVALID, "bill: there is no list of lines in it");
    }
    for (size_t i = 0; status == BASE_OK && i < json_array_size(lines); i++) {
        const json_t *object = json_array_get(lines, i);
        bill_line line = {.currency = currency_of(root, object)};
        bool wanted = true;
        status = json_is_object(object) ? read(object, &line, &wanted, reterr)
                                        : base_fail(reterr, BASE_ERR_INVALID, "not an object");
        if (status == BASE_OK && wanted) {
            status = bill_add(charges, &line, reterr);
        }
        if (status == BASE_ERR_INVALID) { /* often all of them stand in one line */
            status = base_error_prepend(reterr, status, "bill, entry %zu", i + 1);
        }
    }
    json_decref(root);
    return status;
}
