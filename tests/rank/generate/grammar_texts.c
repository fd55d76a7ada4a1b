/* Reads schemas, and asks their grammars. */
#include "grammar_texts.h"

#include <jansson.h>

#include "generate/grammar_state.h"
#include "serve/schema.h"
#include "support.h"

base_status grammar_texts_read(grammar_texts *texts, const char *schema)
{
    json_t *value = json_loads(schema, JSON_REJECT_DUPLICATES, NULL);
    assert_non_null(value);
    const base_status status =
        launch_schema_compile(value, texts->steps, &texts->count, &texts->error);
    json_decref(value);
    return status;
}

bool grammar_texts_is_whole(const proto_grammar_step *steps, const char *text)
{
    static rank_grammar_state states[2];
    int now = 0;
    rank_grammar_begin(steps, &states[0]);
    for (; *text != '\0'; text++, now = 1 - now) {
        if (!rank_grammar_take(steps, &states[now], (uint8_t)*text, &states[1 - now])) {
            return false;
        }
    }
    return states[now].ends != 0;
}
