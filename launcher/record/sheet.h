/* A JSON object that is being filled, as the manifests are: it remembers whether memory ran out. */
#ifndef LAUNCH_SHEET_H
#define LAUNCH_SHEET_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

typedef struct launch_sheet {
    json_t *object;
    bool failed;
} launch_sheet;

launch_sheet sheet_make(void);

/* The object, for the caller to release. NULL: something has failed. */
json_t *sheet_take(launch_sheet sheet);

/* Takes over the value. NULL: something has failed. */
void sheet_put(launch_sheet *sheet, const char *key, json_t *value);

void sheet_int(launch_sheet *sheet, const char *key, uint64_t value);

/* Null if it is not known. */
void sheet_known(launch_sheet *sheet, const char *key, bool known, uint64_t value);

/* NaN and infinity are null. */
void sheet_real(launch_sheet *sheet, const char *key, double value);

/* NULL and "" are null. What is no UTF-8 is replaced. */
void sheet_string(launch_sheet *sheet, const char *key, const char *value);

/* Takes over the part. */
void sheet_part(launch_sheet *sheet, const char *key, launch_sheet part);

/* Appends a row, which it takes over, to a list of the sheet's. */
void sheet_row(launch_sheet *sheet, json_t *list, launch_sheet row);

/* As sheet_string, but of a text that is not empty. NULL: no memory. */
json_t *sheet_text(const char *value);

#endif
