/* Fills JSON objects. Called by manifest.c, inference.c, cloud.c and stages.c. */
#include "record/sheet.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"

launch_sheet sheet_make(void)
{
    json_t *object = json_object();
    return (launch_sheet){.object = object, .failed = object == NULL};
}

json_t *sheet_take(launch_sheet sheet)
{
    if (sheet.failed) {
        json_decref(sheet.object);
        return NULL;
    }
    return sheet.object;
}

void sheet_put(launch_sheet *sheet, const char *key, json_t *value)
{
    if (json_object_set_new(sheet->object, key, value) != 0) {
        sheet->failed = true;
    }
}

void sheet_int(launch_sheet *sheet, const char *key, uint64_t value)
{
    sheet_put(sheet, key, json_integer((json_int_t)value));
}

void sheet_known(launch_sheet *sheet, const char *key, bool known, uint64_t value)
{
    sheet_put(sheet, key, known ? json_integer((json_int_t)value) : json_null());
}

void sheet_real(launch_sheet *sheet, const char *key, double value)
{
    sheet_put(sheet, key, isfinite(value) ? json_real(value) : json_null());
}

json_t *sheet_text(const char *value)
{
    const size_t size_bytes = 3 * strlen(value) + 1; /* U+FFFD is three bytes */
    char *clean = malloc(size_bytes);
    if (clean == NULL) {
        return NULL;
    }
    base_utf8_copy(clean, size_bytes, value);
    json_t *string = json_string(clean);
    free(clean);
    return string;
}

void sheet_string(launch_sheet *sheet, const char *key, const char *value)
{
    sheet_put(sheet, key, value == NULL || value[0] == '\0' ? json_null() : sheet_text(value));
}

void sheet_part(launch_sheet *sheet, const char *key, launch_sheet part)
{
    sheet->failed = sheet->failed || part.failed;
    sheet_put(sheet, key, part.object);
}

void sheet_row(launch_sheet *sheet, json_t *list, launch_sheet row)
{
    const bool added = json_array_append_new(list, row.object) == 0;
    sheet->failed = sheet->failed || row.failed || !added;
}
