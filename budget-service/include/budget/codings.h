/* The budget's kinds of values in rows of base/fields.h: in a token's claims, in a keyring, on a
 * command line. Pure; thread safe. */
#ifndef BUDGET_CODINGS_H
#define BUDGET_CODINGS_H

#include "base/fields.h"

extern const base_coding budget_time_coding;  /* int64_t, seconds since 1970: RFC 3339 */
extern const base_coding budget_hex_coding;   /* uint8_t[]: all of it in lower-case hex */
extern const base_coding budget_usd_coding;   /* int64_t, micro-dollars: "3.00" */
extern const base_coding budget_price_coding; /* the same, above 0 */
extern const base_coding budget_hours_coding; /* int64_t, seconds: "2", "0.5"; rounded up */

/* For base_field.text_ok: printable ASCII without quotes and backslashes; budget_name_ok without
 * and with slashes. */
bool budget_text_ok(const char *text, size_t size_bytes);
bool budget_word_ok(const char *text, size_t size_bytes);
bool budget_path_ok(const char *text, size_t size_bytes);

#endif
