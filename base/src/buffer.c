/* A growing text, with formatting, and HTML and shell quoting. Called by whoever writes pages,
 * manifests and charts. */
#include "base/buffer.h"

#include <math.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/limits.h"
#include "base/utf8.h"

static const char REPLACEMENT[] = "\xef\xbf\xbd"; /* U+FFFD */

/* Makes room for more bytes and a NUL. False if memory runs out. */
static bool make_room(base_buffer *text, size_t more_bytes)
{
    if (text->failed) {
        return false;
    }
    if (text->capacity_bytes - text->length_bytes > more_bytes) {
        return true;
    }
    const size_t capacity_bytes = (text->length_bytes + more_bytes + 1) * 2;
    char *larger = realloc(text->data, capacity_bytes);
    if (larger == NULL) {
        text->failed = true;
        return false;
    }
    text->data = larger;
    text->capacity_bytes = capacity_bytes;
    return true;
}

static void put_bytes(base_buffer *text, const char *bytes, size_t size_bytes)
{
    if (make_room(text, size_bytes)) {
        memcpy(text->data + text->length_bytes, bytes, size_bytes);
        text->length_bytes += size_bytes;
        text->data[text->length_bytes] = '\0';
    }
}

void base_buffer_put(base_buffer *text, const char *string)
{
    put_bytes(text, string, strlen(string));
}

void base_buffer_printf(base_buffer *text, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    const int needed = vsnprintf(NULL, 0, format, args);
    va_end(args);
    if (needed < 0 || !make_room(text, (size_t)needed)) {
        text->failed = true;
        return;
    }
    va_start(args, format);
    (void)vsnprintf(text->data + text->length_bytes, (size_t)needed + 1, format, args);
    va_end(args);
    text->length_bytes += (size_t)needed;
}

void base_buffer_html(base_buffer *text, const char *string)
{
    while (*string != '\0') {
        const size_t length = base_utf8_length(string, SIZE_MAX);
        const char *entity = *string == '&'    ? "&amp;"
                             : *string == '<'  ? "&lt;"
                             : *string == '>'  ? "&gt;"
                             : *string == '"'  ? "&quot;"
                             : *string == '\'' ? "&#39;"
                                               : NULL;
        const bool control =
            (uint8_t)*string < 0x20 && *string != '\n' && *string != '\t' && *string != '\r';
        if (entity != NULL) {
            base_buffer_put(text, entity);
        } else if (length == 0 || control || *string == 0x7f) {
            base_buffer_put(text, REPLACEMENT);
        } else {
            put_bytes(text, string, length);
        }
        string += length > 0 ? length : 1;
    }
}

void base_buffer_shell(base_buffer *text, const char *argument)
{
    static const char PLAIN[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789%+,-./:=@_";
    if (*argument != '\0' && argument[strspn(argument, PLAIN)] == '\0') {
        base_buffer_put(text, argument);
        return;
    }
    base_buffer_put(text, "'");
    for (; *argument != '\0'; argument++) {
        if (*argument == '\'') {
            base_buffer_put(text, "'\\''");
        } else {
            put_bytes(text, argument, 1);
        }
    }
    base_buffer_put(text, "'");
}

void base_buffer_count(base_buffer *text, unsigned long long count)
{
    char digits[32];
    const int length = snprintf(digits, sizeof digits, "%llu", count);
    for (int i = 0; i < length; i++) {
        if (i > 0 && (length - i) % 3 == 0) {
            base_buffer_put(text, "\xe2\x80\xaf"); /* U+202F, a narrow space that does not break */
        }
        put_bytes(text, &digits[i], 1);
    }
}

void base_buffer_number(base_buffer *text, double value, int decimals)
{
    if (isfinite(value)) {
        base_buffer_printf(text, "%.*f", decimals, value);
    } else {
        base_buffer_put(text, "\xe2\x80\x93"); /* an en dash */
    }
}

base_status base_buffer_save(const base_buffer *text, const char *directory, const char *name,
                             base_error *reterr)
{
    char path[BASE_PATH_BYTES + 64];
    (void)snprintf(path, sizeof path, "%s/%s", directory, name);
    if (text->failed) {
        return base_fail(reterr, BASE_ERR_MEMORY, "no memory to write %s", path);
    }
    return base_file_write(path, text->data, text->length_bytes, reterr);
}

void base_buffer_fini(base_buffer *text)
{
    free(text->data);
    memset(text, 0, sizeof *text);
}
