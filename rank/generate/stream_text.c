/* Turns tokens' bytes into text for a terminal. Called by progress.c, serve.c and results.c. */
#include "generate/stream_text.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"

/* Which bytes may follow: UTF-8 without surrogates, overlong forms, or values above U+10FFFF
 * (Unicode 15, table 3-7). */
typedef struct lead {
    int continuation_count; /* 0: the byte begins no character of several bytes */
    uint8_t second_min;
    uint8_t second_max;
} lead;

static lead lead_of(uint8_t byte)
{
    if (byte >= 0xc2 && byte <= 0xdf) {
        return (lead){1, 0x80, 0xbf};
    }
    if (byte >= 0xe0 && byte <= 0xef) {
        return (lead){2, byte == 0xe0 ? 0xa0 : 0x80, byte == 0xed ? 0x9f : 0xbf};
    }
    if (byte >= 0xf0 && byte <= 0xf4) {
        return (lead){3, byte == 0xf0 ? 0x90 : 0x80, byte == 0xf4 ? 0x8f : 0xbf};
    }
    return (lead){0, 0, 0};
}

static size_t put(char *text, const char *from, size_t count)
{
    memcpy(text, from, count);
    return count;
}

static size_t put_replacement(char *text)
{
    return put(text, "\xef\xbf\xbd", 3);
}

static size_t put_hex(char *text, const char *prefix, uint8_t value)
{
    static const char digits[] = "0123456789abcdef";
    const size_t count = strlen(prefix);
    memcpy(text, prefix, count);
    text[count] = digits[value >> 4];
    text[count + 1] = digits[value & 15];
    return count + 2;
}

static size_t put_ascii(char *text, uint8_t byte, bool exact)
{
    if (exact && byte == 0) {
        return put_replacement(text);
    }
    if (!exact && ((byte < 0x20 && byte != '\n' && byte != '\t') || byte == 0x7f)) {
        return put_hex(text, "\\x", byte);
    }
    text[0] = (char)byte;
    return 1;
}

/* A whole character of two to four bytes. */
static size_t put_character(char *text, const uint8_t *bytes, size_t count, bool exact)
{
    if (!exact && count == 2 && bytes[0] == 0xc2 && bytes[1] < 0xa0) { /* U+0080 … U+009F */
        return put_hex(text, "\\u00", bytes[1]);
    }
    memcpy(text, bytes, count);
    return count;
}

/* Whether the byte continues the character that is held. */
static bool goes_on(const rank_stream_text *stream, uint8_t byte)
{
    const lead l = lead_of(stream->held[0]);
    return stream->held_count == 1 ? byte >= l.second_min && byte <= l.second_max
                                   : byte >= 0x80 && byte <= 0xbf;
}

static size_t add_byte(rank_stream_text *stream, uint8_t byte, char *text)
{
    size_t used = 0;
    BASE_ASSERT(stream->held_count <= sizeof stream->held);
    if (stream->held_count > 0) {
        if (goes_on(stream, byte)) {
            const size_t whole = (size_t)lead_of(stream->held[0]).continuation_count + 1;
            uint8_t character[4];
            memcpy(character, stream->held, stream->held_count);
            character[stream->held_count] = byte;
            if (stream->held_count + 1U < whole) {
                stream->held[stream->held_count++] = byte;
                return 0;
            }
            stream->held_count = 0;
            return put_character(text, character, whole, stream->exact);
        }
        used = rank_stream_text_end(stream, text);
    }
    if (byte < 0x80) {
        return used + put_ascii(text + used, byte, stream->exact);
    }
    if (lead_of(byte).continuation_count == 0) {
        return used + put_replacement(text + used);
    }
    stream->held[0] = byte;
    stream->held_count = 1;
    return used;
}

size_t rank_stream_text_add(rank_stream_text *stream, const void *bytes, size_t byte_count,
                            char *text)
{
    const uint8_t *from = bytes;
    size_t used = 0;
    for (size_t i = 0; i < byte_count; i++) {
        used += add_byte(stream, from[i], text + used);
    }
    return used;
}

size_t rank_stream_text_add_token(rank_stream_text *stream, const rank_tokenizer *tokenizer,
                                  int32_t token, char *text)
{
    char bytes[RANK_STREAM_TOKEN_BYTES];
    size_t count = rank_tokenizer_decode(tokenizer, &token, 1, bytes, sizeof bytes);
    count = count < sizeof bytes ? count : sizeof bytes - 1;
    const bool skips = !stream->keeps_space && !stream->has_begun && count > 0 && bytes[0] == ' ';
    stream->has_begun = stream->has_begun || count > 0;
    return rank_stream_text_add(stream, bytes + skips, count - skips, text);
}

size_t rank_stream_text_end(rank_stream_text *stream, char *text)
{
    const size_t used = stream->held_count > 0 ? put_replacement(text) : 0;
    stream->held_count = 0;
    return used;
}

char *rank_stream_text_whole(const void *bytes, size_t byte_count)
{
    rank_stream_text stream = {.held_count = 0};
    char *text = malloc(byte_count * RANK_STREAM_TEXT_GROWTH + 2 * RANK_STREAM_TEXT_HELD_BYTES + 1);
    if (text == NULL) {
        return NULL;
    }
    size_t used = rank_stream_text_add(&stream, bytes, byte_count, text);
    used += rank_stream_text_end(&stream, text + used);
    text[used] = '\0';
    return text;
}
