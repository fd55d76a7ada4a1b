/* A bill's bytes to charges: which format it is, and what all formats have in common. Called by the
 * CLI. */
#include "budget/bill.h"

#include <inttypes.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/assert.h"
#include "base/grow.h"
#include "base/text.h"
#include "bills/bill_core.h"
#include "budget/money.h"
#include "budget/time.h"
#include "budget/token.h"

enum {
    DIGEST_SHOWN_BYTES = 8,
    TIME_S_MIN =
        1000000000, /* of 2001: a date without separators, 20271231, is no number of seconds */
};

#define BYTE_ORDER_MARK "\xef\xbb\xbf" /* with which spreadsheets begin UTF-8 */

static const budget_bill_format *const formats[] = {
    &bill_runpod,
    &bill_vast,
    &bill_focus,
    &bill_own,
};

enum { FORMATS = sizeof formats / sizeof formats[0] };

base_status budget_bill_format_parse(const char *name, const budget_bill_format **format,
                                     base_error *reterr)
{
    char known[128] = "";
    for (size_t i = 0; i < FORMATS; i++) {
        if (strcmp(name, formats[i]->name) == 0) {
            *format = formats[i];
            return BASE_OK;
        }
        const char *between = i == 0 ? "" : (i + 1 < FORMATS ? ", " : " and ");
        base_text_append(known, sizeof known, "%s%s", between, formats[i]->name);
    }
    return base_fail(reterr, BASE_ERR_INVALID, "no such format of a bill: %.64s (there are %s)",
                     name, known);
}

const char *budget_bill_format_name(const budget_bill_format *format)
{
    return format->name;
}

const char *budget_bill_format_vendor(const budget_bill_format *format)
{
    return format->vendor;
}

static bool is_empty(const char *text)
{
    return text == NULL || text[0] == '\0';
}

static void digest_text(const char *const *texts, size_t count,
                        char hex[2 * DIGEST_SHOWN_BYTES + 1])
{
    crypto_generichash_state state;
    uint8_t digest[16];
    (void)crypto_generichash_init(&state, NULL, 0, sizeof digest);
    for (size_t i = 0; i < count; i++) {
        const char *text = texts[i] != NULL ? texts[i] : "";
        (void)crypto_generichash_update(&state, (const uint8_t *)text, strlen(text) + 1);
    }
    (void)crypto_generichash_final(&state, digest, sizeof digest);
    (void)sodium_bin2hex(hex, 2 * DIGEST_SHOWN_BYTES + 1, digest, DIGEST_SHOWN_BYTES);
}

/* An id that the ledger could not hold can match nothing there; its digest stands for it. */
static void put_id(char *id, size_t id_bytes, const char *text)
{
    bool fits = text == NULL || strlen(text) < id_bytes;
    for (size_t i = 0; fits && text != NULL && text[i] != '\0'; i++) {
        fits = text[i] >= ' ' && text[i] <= '~' && text[i] != '"' && text[i] != '\\';
    }
    if (fits) {
        (void)snprintf(id, id_bytes, "%s", text != NULL ? text : "");
        return;
    }
    char hex[2 * DIGEST_SHOWN_BYTES + 1];
    digest_text(&text, 1, hex);
    (void)snprintf(id, id_bytes, "long-%s", hex);
}

/* Of seconds, with or without a fraction, at text; 0: there are none. */
static size_t seconds_length(const char *text)
{
    const size_t digits = strspn(text, "0123456789");
    const size_t fraction = text[digits] == '.' ? strspn(text + digits + 1, "0123456789") : 0;
    return digits + (digits > 0 && fraction > 0 ? 1 + fraction : 0);
}

/* A time without an offset from UTC may be of any zone, and half a day of a bill would be wrong. */
static base_status no_time(const char *time, base_error *reterr)
{
    return base_fail(
        reterr, BASE_ERR_INVALID,
        "the time %.32s is none: it must be as 2026-01-02T03:04:05Z, with Z or another "
        "offset from UTC, a date, or seconds since 1970",
        time);
}

static base_status put_time(const char *time, int64_t *time_s, base_error *reterr)
{
    char text[32];
    char *end = NULL;
    *time_s = 0;
    if (is_empty(time)) {
        return BASE_OK;
    }
    const size_t length = strlen(time);
    if (seconds_length(time) == length) {
        const size_t digits = strspn(time, "0123456789");
        *time_s = digits < 12 ? strtoll(time, &end, 10) : BUDGET_TIME_S_MAX + 1;
        return *time_s == 0 || (*time_s >= TIME_S_MIN && *time_s <= BUDGET_TIME_S_MAX)
                   ? BASE_OK
                   : no_time(time, reterr);
    }
    (void)snprintf(text, sizeof text, length == 10 ? "%.10sT00:00:00Z" : "%.31s", time);
    if (length >= sizeof text || budget_time_parse(text, strlen(text), time_s, NULL) != BASE_OK) {
        return no_time(time, reterr);
    }
    return BASE_OK;
}

static base_status put_cost(const char *cost, int64_t *usd_micro, base_error *reterr)
{
    if (is_empty(cost)) {
        return base_fail(reterr, BASE_ERR_INVALID, "it has no cost, and unknown is not nothing");
    }
    const base_status status = budget_money_parse_bill(cost, strlen(cost), usd_micro, reterr);
    return status == BASE_OK ? BASE_OK : base_error_prepend(reterr, BASE_ERR_INVALID, "cost");
}

static base_status check_currency(const char *currency, base_error *reterr)
{
    return currency == NULL || strcasecmp(currency, "USD") == 0
               ? BASE_OK
               : base_fail(reterr, BASE_ERR_INVALID, "the currency %.16s is not USD", currency);
}

static base_status grow(bill_charges *charges, base_error *reterr)
{
    if (charges->count == BUDGET_CHARGES_MAX) {
        return base_fail(reterr, BASE_ERR_LIMIT, "the bill has more than %d lines",
                         BUDGET_CHARGES_MAX);
    }
    budget_charge *larger =
        base_grow(charges->charges, charges->count, &charges->capacity, 64, sizeof *larger);
    if (larger == NULL) {
        return base_fail(reterr, BASE_ERR_MEMORY, "no memory for the bill");
    }
    charges->charges = larger;
    return BASE_OK;
}

/* For a line that has none: of what distinguishes it from others. See is_ours. */
static void make_id(const bill_line *line, budget_charge *charge)
{
    char hex[2 * DIGEST_SHOWN_BYTES + 1];
    char time[BUDGET_TIME_BYTES];
    const char *const texts[] = {line->label,    line->instance_id, line->time,
                                 line->about[0], line->about[1],    line->about[2],
                                 line->about[3], line->correction};
    const char *const sole[] = {NULL, line->instance_id, time, NULL, NULL, NULL, NULL};
    /* Lines that correct nothing keep the ids that they had before corrections were told apart. */
    const size_t count = sizeof texts / sizeof texts[0] - (is_empty(line->correction) ? 1 : 0);
    budget_time_format(charge->at_s, time);
    digest_text(line->sole ? sole : texts, line->sole ? sizeof sole / sizeof sole[0] : count, hex);
    (void)snprintf(charge->line_id, sizeof charge->line_id, "%.64s@%" PRId64 "~%s",
                   charge->instance_id[0] != '\0' ? charge->instance_id : charge->label,
                   charge->at_s, hex);
}

base_status bill_add(bill_charges *charges, const bill_line *line, base_error *reterr)
{
    base_status status = grow(charges, reterr);
    if (status != BASE_OK) {
        return status;
    }
    budget_charge *charge = &charges->charges[charges->count];
    memset(charge, 0, sizeof *charge);
    status = check_currency(line->currency, reterr);
    status = status == BASE_OK ? put_cost(line->cost, &charge->usd_micro, reterr) : status;
    status = status == BASE_OK ? put_time(line->time, &charge->at_s, reterr) : status;
    status = status == BASE_OK ? put_time(line->until, &charge->until_s, reterr) : status;
    if (status != BASE_OK) {
        return status;
    }
    if (is_empty(line->line_id) && is_empty(line->time)) {
        return base_fail(reterr, BASE_ERR_INVALID,
                         "it has neither an id nor a time, so the next bill's line of the same run "
                         "could not be told from it");
    }
    put_id(charge->vendor, sizeof charge->vendor, line->vendor);
    put_id(charge->label, sizeof charge->label, line->label);
    put_id(charge->instance_id, sizeof charge->instance_id, line->instance_id);
    put_id(charge->line_id, sizeof charge->line_id, line->line_id);
    if (charge->line_id[0] == '\0') {
        make_id(line, charge);
        charges->are_sole = charges->are_sole || line->sole;
    }
    charges->count++;
    return BASE_OK;
}

typedef struct ordered {
    budget_charge *charge;
} ordered;

/* An id counts within its vendor and instance. */
static int compare_lines(const budget_charge *left, const budget_charge *right)
{
    int order = strcmp(left->line_id, right->line_id);
    order = order != 0 ? order : strcmp(left->instance_id, right->instance_id);
    return order != 0 ? order : strcmp(left->vendor, right->vendor);
}

static int by_id(const void *a, const void *b)
{
    const budget_charge *left = ((const ordered *)a)->charge;
    const budget_charge *right = ((const ordered *)b)->charge;
    const int order = compare_lines(left, right);
    return order != 0 ? order : (left > right) - (left < right);
}

/* Whether bill_add has made the id: NAME@TIME~DIGEST. Equal ones are numbered, where equal ids of the
 * vendor's are refused. */
static bool is_ours(const char *id)
{
    const char *name_end = strrchr(id, '@');
    const size_t digits = name_end != NULL ? strspn(name_end + 1, "0123456789") : 0;
    const char *mark = name_end != NULL ? name_end + 1 + digits : id;
    return digits > 0 && mark[0] == '~' && strlen(mark) == 1 + 2 * DIGEST_SHOWN_BYTES &&
           strspn(mark + 1, "0123456789abcdef") == 2 * DIGEST_SHOWN_BYTES;
}

/* Lines that say the same of the same hour, and nothing that distinguishes them, are numbered,
 * unless the vendor has one alone. */
static base_status number_equals(bill_charges *charges, base_error *reterr)
{
    base_status status = BASE_OK;
    ordered *order = malloc(charges->count * sizeof *order + 1);
    if (order == NULL) {
        return base_fail(reterr, BASE_ERR_MEMORY, "no memory for the bill");
    }
    for (size_t i = 0; i < charges->count; i++) {
        order[i].charge = &charges->charges[i];
    }
    qsort(order, charges->count, sizeof *order, by_id);
    for (size_t first = 0, i = 1; i < charges->count && status == BASE_OK; i++) {
        budget_charge *charge = order[i].charge;
        if (compare_lines(charge, order[first].charge) != 0) {
            first = i;
        } else if (!is_ours(charge->line_id)) {
            status = base_fail(reterr, BASE_ERR_INVALID, "bill: two lines have the id %s",
                               charge->line_id);
        } else if (charges->are_sole && charge->instance_id[0] != '\0') {
            char time[BUDGET_TIME_BYTES];
            budget_time_format(charge->at_s, time);
            status = base_fail(reterr, BASE_ERR_INVALID,
                               "bill: two lines are about %.64s from %s on, and its vendor has one "
                               "alone: take both from one source, with periods of one length",
                               charge->instance_id, time);
        } else {
            base_text_append(charge->line_id, sizeof charge->line_id, "~%zu", i - first + 1);
        }
    }
    free(order);
    return status;
}

static bool has_mark(const budget_bill_format *format, const char *text, size_t size_bytes)
{
    bool found = false;
    for (size_t i = 0; i < sizeof format->marks / sizeof format->marks[0]; i++) {
        const char *mark = format->marks[i];
        found = found || (mark != NULL && memmem(text, size_bytes, mark, strlen(mark)) != NULL);
    }
    return found;
}

const budget_bill_format *budget_bill_format_guess(const void *bytes, size_t size_bytes,
                                                   const char *vendor)
{
    const char *text = bytes;
    size_t start = 0;
    while (start < size_bytes && strchr(" \t\r\n" BYTE_ORDER_MARK, text[start]) != NULL) {
        start++;
    }
    const bool is_json = start < size_bytes && (text[start] == '[' || text[start] == '{');
    for (size_t i = 0; i < FORMATS; i++) {
        if (formats[i]->is_json == is_json && has_mark(formats[i], text, size_bytes)) {
            return formats[i];
        }
    }
    for (size_t i = 0; i < FORMATS && is_json && vendor != NULL; i++) {
        if (formats[i]->vendor != NULL && strcmp(formats[i]->vendor, vendor) == 0) {
            return formats[i];
        }
    }
    return is_json ? NULL : &bill_own;
}

base_status budget_bill_parse(const void *bytes, size_t size_bytes,
                              const budget_bill_format *format, budget_charge **charges,
                              size_t *count, base_error *reterr)
{
    bill_charges made = {0};
    if (size_bytes > BUDGET_BILL_BYTES_MAX) {
        return base_fail(reterr, BASE_ERR_LIMIT, "the bill is larger than %d bytes",
                         BUDGET_BILL_BYTES_MAX);
    }
    if (size_bytes == 0 || memchr(bytes, '\0', size_bytes) != NULL) {
        return base_fail(reterr, BASE_ERR_INVALID, "the bill is empty, or no text in UTF-8");
    }
    const size_t mark_bytes = size_bytes >= 3 && memcmp(bytes, BYTE_ORDER_MARK, 3) == 0 ? 3 : 0;
    base_status status = budget_crypto_init(reterr);
    char *text = status == BASE_OK ? malloc(size_bytes + 1) : NULL;
    if (text == NULL) {
        return status != BASE_OK ? status
                                 : base_fail(reterr, BASE_ERR_MEMORY, "no memory for the bill");
    }
    memcpy(text, bytes, size_bytes);
    text[size_bytes] = '\0';
    status = format->read(text + mark_bytes, &made, reterr);
    free(text);
    status = status == BASE_OK ? number_equals(&made, reterr) : status;
    if (status != BASE_OK) {
        free(made.charges);
        return status;
    }
    *charges = made.charges;
    *count = made.count;
    return BASE_OK;
}
