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

void grammar_texts_check(grammar_texts *texts, const grammar_case *one)
{
    assert_ok(grammar_texts_read(texts, one->schema), &texts->error);
    for (int k = 0; k < 6 && one->valid[k] != NULL; k++) {
        if (!grammar_texts_is_whole(texts->steps, one->valid[k])) {
            fail_msg("%s does not allow %s", one->schema, one->valid[k]);
        }
    }
    for (int k = 0; k < 7 && one->invalid[k] != NULL; k++) {
        if (grammar_texts_is_whole(texts->steps, one->invalid[k])) {
            fail_msg("%s allows %s", one->schema, one->invalid[k]);
        }
    }
}
