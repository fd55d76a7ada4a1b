/* Times as RFC 3339 text and as seconds since 1970, UTC. Pure; thread safe. */
#ifndef BUDGET_TIME_H
#define BUDGET_TIME_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

enum { BUDGET_TIME_BYTES = 24 }; /* "2026-01-02T03:04:05Z" with the final NUL */

/* The last second of the year 9999; times are from 0 to this. */
#define BUDGET_TIME_S_MAX INT64_C(253402300799)

/* Strict: "2026-01-02T03:04:05Z", with up to nine digits of a fraction (dropped) and an offset
 * "+02:00" in the place of "Z". BASE_ERR_INVALID for all else, 31 February included. */
BASE_MUST_CHECK base_status budget_time_parse(const char *text, size_t text_bytes, int64_t *time_s,
                                              base_error *reterr);

/* time_s is clamped to 0 … BUDGET_TIME_S_MAX. */
void budget_time_format(int64_t time_s, char text[BUDGET_TIME_BYTES]);

/* The wall clock, in whole seconds. */
int64_t budget_time_now(void);

#endif
