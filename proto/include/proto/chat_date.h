/* The date that chat templates are given (JOB.json's data.chat_date): "2026-11-30T09:05", in UTC. The launcher
 * resolves it once, so that all ranks have the same. */
#ifndef PROTO_CHAT_DATE_H
#define PROTO_CHAT_DATE_H

#include <stdbool.h>
#include <stddef.h>
#include <time.h>

#include "base/status.h"

enum { PROTO_CHAT_DATE_BYTES = sizeof "2026-11-30T09:05" };

/* The text as a broken-down time, with its day of the week and of the year. false: it is no such date from the year
 * 1000 on. */
bool proto_chat_date_read(const char *text, struct tm *when);
/* The same, as the table of a job's fields asks it. */
bool proto_chat_date_ok(const char *text, size_t size_bytes);

/* What is typed: such a date, a day alone, whose midnight it is, or "today": the day it is now in UTC.
 * BASE_ERR_INVALID: it is none of them. */
BASE_MUST_CHECK base_status proto_chat_date_resolve(const char *typed,
                                                    char date[PROTO_CHAT_DATE_BYTES],
                                                    base_error *reterr);

#endif
