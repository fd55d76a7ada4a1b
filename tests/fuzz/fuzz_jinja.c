/* Any text is a template that runs to its end over a chat, or is refused. Each letter of a message is said to come from
 * that message. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "base/assert.h"
#include "jinja/jinja.h"

enum {
    LETTER_BYTES = 3, /* U+A000 is in the first message, U+A040 in the second, … */
    MESSAGES = 4,
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes);

static const char CHAT[] =
    "{\"messages\": ["
    "{\"role\": \"system\", \"content\": \"\ua000 Be \\\"brief\\\".\\n\"},"
    "{\"role\": \"user\", \"content\": \" \ua040<|im_end|> it's\\n\"},"
    "{\"role\": \"assistant\", \"content\": \"<think>\\n\ua080\\n</think>\\n\\nyes\", \"n\": null},"
    "{\"role\": \"user\", \"content\": [{\"type\": \"text\", \"text\": \"\ua0c0\"}]}],"
    "\"tools\": [{\"name\": \"\ua100\", \"parameters\": {\"x\": {\"type\": \"number\"}}}],"
    "\"add_generation_prompt\": true, \"bos_token\": \"<s>\", \"eos_token\": \"</s>\","
    "\"word\": \"Hello\", \"numbers\": [3, 1, 2.5], \"d\": {\"b\": 1, \"a\": 2}}";

/* The origin of the letter there, which is that of a message, or of a tool; 0: there is none. */
static uint32_t origin_of(const char *at, size_t left)
{
    static const char *const letters[] = {"\ua000", "\ua040", "\ua080", "\ua0c0", "\ua100"};
    for (uint32_t i = 0; left >= LETTER_BYTES && i <= MESSAGES; i++) {
        if (memcmp(at, letters[i], LETTER_BYTES) == 0) {
            return i < MESSAGES ? i + 1 : RANK_JINJA_QUOTED;
        }
    }
    return 0;
}

/* A template may write such letters itself, also by an escape. */
static bool may_write_letters(const char *source)
{
    return strchr(source, '\\') != NULL || strchr(source, '\xea') != NULL;
}

static void check(const char *source, const rank_jinja_text *text)
{
    const bool checks = !may_write_letters(source);
    BASE_ASSERT(text->at[text->bytes] == '\0');
    for (size_t i = 0; i < text->bytes; i++) {
        const uint32_t letter = origin_of(text->at + i, text->bytes - i);
        BASE_ASSERT(text->origins[i] <= MESSAGES || text->origins[i] == RANK_JINJA_QUOTED);
        BASE_ASSERT(!checks || letter == 0 || text->origins[i] == letter);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes)
{
    static json_t *chat;
    base_error error;
    rank_jinja *template = NULL;
    rank_jinja_text text;
    if (chat == NULL) {
        chat = json_loads(CHAT, 0, NULL);
        BASE_ASSERT(chat != NULL);
    }
    char *source =
        malloc(size_bytes + 1); /* of its size, so that a sanitizer sees what is read behind it */
    BASE_ASSERT(source != NULL);
    if (size_bytes > 0) {
        memcpy(source, data, size_bytes);
    }
    source[size_bytes] = '\0';
    const struct tm now = {.tm_year = 126, .tm_mon = 10, .tm_mday = 30, .tm_wday = 1};
    const rank_jinja_given given = {
        .variables = chat, .traced = "messages", .quoted = "tools", .now = &now};
    if (rank_jinja_parse(source, &template, &error) == BASE_OK) {
        if (rank_jinja_render(template, &given, &text, &error) == BASE_OK) {
            check(source, &text);
            rank_jinja_text_fini(&text);
        }
        rank_jinja_destroy(template);
    }
    free(source);
    return 0;
}
