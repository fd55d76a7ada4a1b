/* The date of chat templates, read and resolved. Called by the table of a job's fields, by launcher/cli, and by ranks
 * that write chats. */
#include "proto/chat_date.h"

#include <stdio.h>
#include <string.h>

static const char FORMAT[] = "%Y-%m-%dT%H:%M";

bool proto_chat_date_read(const char *text, struct tm *when)
{
    char again[PROTO_CHAT_DATE_BYTES];
    struct tm read = {.tm_year = 0};
    const char *end = strptime(text, FORMAT, &read);
    if (end == NULL || *end != '\0' || strlen(text) != PROTO_CHAT_DATE_BYTES - 1) {
        return false;
    }
    const time_t seconds = timegm(&read);
    /* a day that no month has becomes another, and what is not typed in full is written so */
    if (gmtime_r(&seconds, &read) == NULL || strftime(again, sizeof again, FORMAT, &read) == 0 ||
        strcmp(again, text) != 0) {
        return false;
    }
    *when = read;
    return true;
}

bool proto_chat_date_ok(const char *text, size_t size_bytes)
{
    struct tm when;
    (void)size_bytes;
    return proto_chat_date_read(text, &when);
}

base_status proto_chat_date_resolve(const char *typed, char date[PROTO_CHAT_DATE_BYTES],
                                    base_error *reterr)
{
    const bool is_day = strchr(typed, 'T') == NULL;
    char whole[2 * PROTO_CHAT_DATE_BYTES];
    struct tm when;
    if (strcmp(typed, "today") == 0) {
        const time_t now = time(NULL);
        (void)gmtime_r(&now, &when);
        (void)strftime(date, PROTO_CHAT_DATE_BYTES, "%Y-%m-%dT00:00", &when);
        return BASE_OK;
    }
    const int length = snprintf(whole, sizeof whole, "%s%s", typed, is_day ? "T00:00" : "");
    if (length >= PROTO_CHAT_DATE_BYTES || !proto_chat_date_read(whole, &when)) {
        return base_fail(reterr, BASE_ERR_INVALID,
                         "'%.64s': must be a day from the year 1000 on, as in 2026-11-30 or "
                         "2026-11-30T09:05, or today",
                         typed);
    }
    memcpy(date, whole, PROTO_CHAT_DATE_BYTES);
    return BASE_OK;
}
