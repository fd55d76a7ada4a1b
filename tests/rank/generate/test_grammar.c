/* Grammars of JSON schemas, from the launcher's compiler to the tokens that ranks allow: a model that draws any token
 * makes answers that are valid, and that can end only where they are whole. The mask is that of each token's bytes one by one. */
#include "generate/grammar.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "generate/grammar_state.h"
#include "generate/noise.h"
#include "grammar_texts.h"
#include "rank/tokenizer.h"
#include "serve/schema.h"
#include "support.h"

enum {
    TEXT_TOKENS_MAX = 4000,
    TEXT_BYTES_MAX = 64 * 1024,
    PROMPT_TOKENS = 3, /* which the grammar does not see */
    ANSWERS = 12,      /* of each schema */
    VOCAB_MORE = 5,    /* tokens that the model has and the tokenizer does not */
    CHECKED_EVERY = 7, /* masks */
};

#define OPEN "{\"type\":\"json_schema\",\"json_schema\":{\"name\":\"a\",\"strict\":true,\"schema\":"

/* Each with answers that it allows, and others that it does not. */
static const struct {
    const char *schema;
    const char *valid[4];
    const char *invalid[6];
} cases[] = {
    {"{\"type\":\"string\"}",
     {"\"\"", " \"a\\n\\u00e9\\ud83d\\ude00/\"", "\"\xc3\xa9\"", "\"\\u001f\""},
     {"\"a", "\"\n\"", "\"\\x\"", "\"\\ud800\"", "\"\\u0000\"", "\"\\ud83d\\u0041\""}},
    {"{\"type\":\"string\"}", /* RFC 3629, section 4 */
     {"\"\xe0\xa0\x80\xed\x9f\xbf\xee\x80\x80\"", "\"\xf0\x90\x80\x80\xf4\x8f\xbf\xbf\"",
      "\"\xe2\x80\xa7\xe2\x80\xaa\xe2\x81\xa8\"", "\"\\u2028\""},
     {"\"\x80\"", "\"\xc3\"", "\"\xe0\x9f\xbf\"", "\"\xed\xa0\x80\"", "\"\xf4\x90\x80\x80\"",
      "\"\xe2\x80\xa8\""}},
    {"{\"type\":\"number\"}",
     {"0", "-12.50e-3", "1E+9", "999999999999999"},
     {"01", "1.", ".5", "1e", "+1", "1234567890123456"}},
    {"{\"type\":\"integer\"}", {"0", "-7", "120"}, {"1.0", "-", "007", "1e3"}},
    {"{\"type\":[\"boolean\",\"null\"]}", {"true", "false", "null"}, {"nul", "True", "\"\""}},
    {"{\"enum\":[\"re\",\"red\",\"b\\\"\",7,70,null,true]}",
     {"\"re\"", "\"red\"", "\"b\\\"\"", "70"},
     {"\"r\"", "\"redd\"", "700", "false"}},
    {"{\"type\":\"string\",\"enum\":[\"a\",1]}", {"\"a\""}, {"1"}},
    {"{\"const\":\"\xc3\xa9\"}", {"\"\xc3\xa9\""}, {"\"e\""}},
    {"{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"integer\"},\"ab\":{\"type\":"
     "\"boolean\"},"
     "\"c\":{\"anyOf\":[{\"type\":\"string\"},{\"type\":\"null\"}],\"default\":null,\"title\":"
     "\"C\"}},"
     "\"required\":[\"ab\"],\"additionalProperties\":false}",
     {"{\"ab\":true}", "{\"a\":1,\"ab\":true}", "{\"ab\":true,\"c\":null}",
      "{ \"a\": 1, \"ab\": true,\n  \"c\": \"\"\n}"},
     {"{}", "{\"a\":1}", "{\"ab\":true,}", "{\"ab\":true,\"a\":1}", "{\"ab\":true,\"d\":1}",
      "{\"ab\":true \"c\":null}"}},
    {"{\"properties\":{\"a\":{},\"b\":{}}}",
     {"{}", "{\"a\":[1,{\"x\":null}]}", "{\"b\":\"\"}", "{\"a\":1,\"b\":2}"},
     {"{,}", "{\"a\"}", "{\"b\":1,\"a\":1}"}},
    {"{\"type\":\"object\",\"additionalProperties\":false}", {"{}", "{ }"}, {"{\"a\":1}"}},
    {"{\"additionalProperties\":false}", {"{}"}, {"{\"a\":1}"}},
    {"{\"minItems\":2}", {"[1,{}]"}, {"[]", "[1]"}},
    {"{\"maxItems\":1}", {"[]", "[{}]"}, {"[1,1]"}},
    {"{\"type\":\"object\",\"additionalProperties\":{\"type\":\"integer\"}}",
     {"{}", "{\"x\":1,\"\":2}"},
     {"{\"x\":\"1\"}", "{1:1}", "{\"x\":1,}"}},
    {"{\"type\":\"array\",\"items\":{\"type\":\"integer\"},\"minItems\":2,\"maxItems\":3}",
     {"[1,2]", "[1, 2, 3]"},
     {"[]", "[1]", "[1,2,3,4]", "[1,2,]", "[1 2]"}},
    {"{\"type\":\"array\",\"items\":{\"const\":0},\"minItems\":1}",
     {"[0]", "[0,0,0,0,0]"},
     {"[]", "[0,", "[,0]"}},
    {"{\"type\":\"array\",\"maxItems\":0}", {"[]", "[ ]"}, {"[0]"}},
    {"{\"type\":\"array\",\"items\":{\"const\":0},\"maxItems\":1}", {"[]", "[0]"}, {"[0,0]"}},
    {"{\"$ref\":\"#/$defs/"
     "Node\",\"$defs\":{\"Node\":{\"type\":\"object\",\"properties\":{\"v\":{\"type\":\"integer\"},"
     "\"next\":{\"anyOf\":[{\"$ref\":\"#/$defs/"
     "Node\"},{\"type\":\"null\"}]}},\"required\":[\"v\",\"next\"]}}}",
     {"{\"v\":1,\"next\":null}", "{\"v\":1,\"next\":{\"v\":2,\"next\":null}}"},
     {"{\"v\":1,\"next\":{}}", "{\"v\":1}"}},
    {"{\"anyOf\":[{\"type\":\"object\",\"properties\":{\"k\":{\"const\":\"cat\"},\"n\":{\"type\":"
     "\"null\"}},\"required\":[\"k\",\"n\"]},"
     "{\"type\":\"object\",\"properties\":{\"k\":{\"const\":\"car\"},\"n\":{\"const\":1}},"
     "\"required\":[\"k\",\"n\"]}]}",
     {"{\"k\":\"cat\",\"n\":null}", "{\"k\":\"car\",\"n\":1}"},
     {"{\"k\":\"cat\",\"n\":1}", "{\"k\":\"car\",\"n\":null}"}},
    {"{\"anyOf\":[{\"type\":\"array\",\"items\":{\"$ref\":\"#\"}},{\"type\":\"array\",\"items\":{"
     "\"$ref\":\"#\"}},{\"const\":1}]}",
     {"1", "[]", "[[1],[[]]]"},
     {"[", "2"}},
    {"{\"discriminator\":{\"propertyName\":\"k\"},\"oneOf\":[{\"properties\":{\"k\":{\"const\":1}},"
     "\"required\":[\"k\"]},"
     "{\"properties\":{\"k\":{\"const\":2}},\"required\":[\"k\"]}]}",
     {"{\"k\":1}", "{\"k\":2}"},
     {"{\"k\":3}"}},
    {"{\"anyOf\":[{\"$ref\":\"#\"},{\"$ref\":\"#\"},{\"type\":\"null\"}]}", {"null"}, {"", "nul"}},
    {"{\"anyOf\":[{\"$ref\":\"#/$defs/a~1b\"},{\"$ref\":\"#/$defs/%7E0%20%25\"},{\"$ref\":\"#/"
     "$defs/x/"
     "anyOf/1\"}],"
     "\"$defs\":{\"a/b\":{\"const\":1},\"a~1b\":{\"const\":2},\"~ "
     "%\":{\"const\":3},\"x\":{\"anyOf\":[{"
     "\"const\":4},{\"const\":5}]}}}",
     {"1", "3", "5"},
     {"2", "4"}},
    {"{\"allOf\":[{\"type\":\"boolean\"}],\"description\":\"a\"}", {"true"}, {"1"}},
    {"{\"maxLength\":5}", {"\"\"", "\"\xc3\xa9tude\""}, {"\"etudes\""}},
    {"{\"anyOf\":[{\"type\":\"string\",\"maxLength\":2},{\"enum\":[\"the\",\"there is\"]}]}",
     {"\"the\"", "\"to\"", "\"there is\""},
     {"\"then\"", "\"abc\""}},
    {"{\"pattern\":\"^.{2,9}$|^(the|on)+[0-9]\"}",
     {"\"thethe1\\n\"", "\"a\\t\""},
     {"\"a\"", "\"a\\n\""}},
    {"{\"pattern\":\"^[^a]*$\",\"minLength\":3}",
     {"\"\xf0\x9f\x98\x80 b\""},
     {"\"bb\"", "\"bba\""}},
};

static rank_tokenizer *tokenizer;
static rank_grammars *grammars;
static proto_grammar_step steps[PROTO_GRAMMAR_STEPS_MAX];
static uint32_t steps_count;
static rank_request request;
static base_error error;

static base_status read_format(const char *text)
{
    json_t *value = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
    assert_non_null(value);
    const base_status status = launch_schema_read(value, steps, &steps_count, &error);
    json_decref(value);
    return status;
}

/* Makes the request that has the format. */
static void make_request(uint64_t id)
{
    request.id = id;
    request.prompt_count = PROMPT_TOKENS;
    request.stop_count = 1;
    request.stops[0] = rank_tokenizer_end_id(tokenizer);
    request.grammar_count = steps_count;
    request.grammar = steps;
    assert_ok(rank_grammars_check(grammars, &request, &error), &error);
}

static void read_case(size_t i)
{
    char text[2048];
    (void)snprintf(text, sizeof text, OPEN "%s}}", cases[i].schema);
    assert_ok(read_format(text), &error);
}

static bool is_whole(const char *text)
{
    return grammar_texts_is_whole(steps, text);
}

static void schemas_mean_what_they_say(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        read_case(i);
        for (int k = 0; k < 4 && cases[i].valid[k] != NULL; k++) {
            if (!is_whole(cases[i].valid[k])) {
                fail_msg("%s does not allow %s", cases[i].schema, cases[i].valid[k]);
            }
        }
        for (int k = 0; k < 6 && cases[i].invalid[k] != NULL; k++) {
            if (is_whole(cases[i].invalid[k])) {
                fail_msg("%s allows %s", cases[i].schema, cases[i].invalid[k]);
            }
        }
    }
    assert_ok(read_format("{\"type\":\"json_object\"}"), &error);
    assert_true(is_whole("\n{\"a\": [1, true, \"x\", {\"b\": null}]}"));
    assert_false(is_whole("[]"));
    assert_ok(read_format("{\"type\":\"text\"}"), &error);
    assert_int_equal(steps_count, 0);
}

/* ---- tokens ---- */

/* Whether each token's bytes one by one lead on from the text, as the mask says. */
static void check_mask(const char *text, const float *logits, int32_t count)
{
    rank_grammar_state before[2];
    int now = 0;
    rank_grammar_begin(steps, &before[0]);
    for (const char *at = text; *at != '\0'; at++, now = 1 - now) {
        assert_true(rank_grammar_take(steps, &before[now], (uint8_t)*at, &before[1 - now]));
    }
    for (int32_t id = 0; id < count; id++) {
        static rank_grammar_state states[2];
        char bytes[256] = "";
        const size_t size = id < rank_tokenizer_vocab_size(tokenizer)
                                ? rank_tokenizer_decode(tokenizer, &id, 1, bytes, sizeof bytes)
                                : 0;
        bool taken = size > 0 && size <= 64;
        states[0] = before[now];
        for (size_t i = 0; taken && i < size; i++) {
            taken =
                rank_grammar_take(steps, &states[i % 2], (uint8_t)bytes[i], &states[(i + 1) % 2]);
        }
        taken = taken || (id == request.stops[0] && before[now].ends != 0);
        if (taken != (logits[id] > -INFINITY)) {
            fail_msg("token %d (%s) behind %s: %d", id, bytes, text, taken);
        }
    }
}

static int32_t single_token(char byte)
{
    rank_ids ids = {.at = (int32_t[2]){0}, .capacity = 2};
    assert_ok(rank_tokenizer_encode(tokenizer, &byte, 1, &ids, &error), &error);
    assert_int_equal(ids.count, 1);
    return ids.at[0];
}

typedef struct drawn {
    int32_t tokens[PROMPT_TOKENS + TEXT_TOKENS_MAX];
    int32_t count;
    char text[TEXT_BYTES_MAX];
} drawn;

/* Masks the logits of the row behind so many tokens, of which some are known. */
static void mask(const int32_t *tokens, int32_t count, int32_t known, float *logits, int32_t vocab)
{
    rank_grammars_mask(
        grammars,
        &(rank_grammar_text){.request = &request,
                             .steps = steps,
                             .text = &(rank_adjust_text){tokens, PROMPT_TOKENS, count},
                             .known = known},
        &(rank_adjust_row){.logits = logits, .count = vocab});
}

/* Draws one more token of those that are allowed, each as likely as the other. False: the text has ended. */
static bool draw_one(drawn *d, uint64_t stream, float *logits, int32_t count)
{
    int32_t best = -1;
    for (int32_t id = 0; id < count; id++) {
        logits[id] = (float)(rank_noise_bits(stream + (uint64_t)d->count, id) >> 40);
    }
    mask(d->tokens, d->count, d->count, logits, count);
    for (int32_t id = 0; id < count; id++) {
        best = logits[id] > -INFINITY && (best < 0 || logits[id] > logits[best]) ? id : best;
    }
    assert_true(best >= 0);
    if (d->count % CHECKED_EVERY == 0) {
        check_mask(d->text, logits, count);
    }
    const bool whole = is_whole(d->text);
    assert_int_equal(whole, logits[request.stops[0]] > -INFINITY);
    if (best == request.stops[0]) {
        return false;
    }
    assert_true(d->count < PROMPT_TOKENS + TEXT_TOKENS_MAX);
    const size_t used = strlen(d->text);
    (void)rank_tokenizer_decode(tokenizer, &best, 1, d->text + used, sizeof d->text - used);
    d->tokens[d->count++] = best;
    return true;
}

/* Whatever a model draws is JSON in UTF-8 when it ends. */
static void check_answers(uint64_t first_id)
{
    static drawn d;
    const int32_t count = rank_tokenizer_vocab_size(tokenizer) + VOCAB_MORE;
    float *logits = calloc((size_t)count, sizeof *logits);
    assert_non_null(logits);
    for (uint64_t answer = 0; answer < ANSWERS; answer++) {
        json_error_t flaw;
        make_request(first_id + answer);
        d.count = PROMPT_TOKENS;
        d.text[0] = '\0';
        while (draw_one(&d, (first_id + answer) << 32, logits, count)) {
        }
        json_t *value = json_loads(d.text, JSON_DECODE_ANY, &flaw);
        if (value == NULL) {
            fail_msg("%s: %s", d.text, flaw.text);
        }
        json_decref(value);
    }
    free(logits);
}

static void any_model_answers_in_json(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        read_case(i);
        check_answers(1 + i * ANSWERS);
    }
    assert_ok(read_format("{\"type\":\"json_object\"}"), &error);
    check_answers(UINT64_C(1) << 20);
}

/* A schema of `count` alternatives in turn, each with its number between two texts. */
static void read_alternatives(const char *begin, const char *const each[2], int count,
                              const char *end)
{
    static char text[64 * 1024];
    size_t used = (size_t)snprintf(text, sizeof text, OPEN "{\"anyOf\":[%s", begin);
    for (int i = 0; i < count; i++) {
        used += (size_t)snprintf(text + used, sizeof text - used, "%s%d%s", each[0], i, each[1]);
    }
    (void)snprintf(text + used, sizeof text - used, "%s]}}}", end);
    assert_ok(read_format(text), &error);
}

/* Each of many can be had, also within another; and where only one is flat enough, that one can. */
static void many_alternatives_are_followed(void **state)
{
    (void)state;
    static const char *const objects[] = {"{\"properties\":{\"k\":{\"const\":",
                                          "},\"x\":{\"$ref\":\"#\"}},\"required\":[\"k\",\"x\"]},"};
    static const char *const lists[] = {
        ",{\"title\":\"", "\",\"type\":\"array\",\"items\":{\"$ref\":\"#\"},\"minItems\":1}"};
    read_alternatives("", objects, 80, "{\"type\":\"null\"}");
    assert_true(is_whole("null"));
    assert_true(is_whole("{ \"k\": 0, \"x\": {\"k\": 79, \"x\": null}}"));
    assert_true(is_whole("{ \"k\": 79, \"x\": {\"k\": 79, \"x\": null}}"));
    read_alternatives(
        "{\"type\":\"array\",\"items\":{\"$ref\":\"#\"},\"minItems\":1},{\"type\":\"null\"}", lists,
        170, "");
    check_answers(UINT64_C(1) << 21);
    assert_true(is_whole("[[[[[[[[[[[[[[[null]]]]]]]]]]]]]]]"));
}

/* Numbers are called, as texts are: each costs one step. */
static void many_numbers_have_room(void **state)
{
    static const char *const each[] = {",\"k", "\":{\"type\":\"number\"}"};
    (void)state;
    read_alternatives("{\"properties\":{\"a\":{\"type\":\"integer\"}", each, 100, "}}");
    assert_true(is_whole("{\"a\": 7, \"k0\": -1.5, \"k99\": 2e9}"));
    assert_false(is_whole("{\"a\": 7.0}"));
}

/* Behind an "a" so many ways go on that the string's is left out: then no mask may have a token that needs it. */
static void ways_that_are_left_out_are_forbidden(void **state)
{
    static char text[64 * 1024];
    const int32_t count = rank_tokenizer_vocab_size(tokenizer) + VOCAB_MORE;
    const int32_t quote[PROMPT_TOKENS + 1] = {[PROMPT_TOKENS] = single_token('"')};
    float *logits = calloc((size_t)count, sizeof *logits);
    size_t used = (size_t)snprintf(text, sizeof text, OPEN "{\"anyOf\":[");
    (void)state;
    assert_non_null(logits);
    for (int one = 0; one < 4; one++) {
        used += (size_t)snprintf(text + used, sizeof text - used, "{\"enum\":[\"b\"");
        for (int byte = '0'; byte <= '~'; byte++) {
            used += byte == '\\' ? 0
                                 : (size_t)snprintf(text + used, sizeof text - used, ",\"a%c%d\"",
                                                    byte, one);
        }
        used += (size_t)snprintf(text + used, sizeof text - used, "]},");
    }
    (void)snprintf(text + used, sizeof text - used, "{\"type\":\"string\"}]}}}");
    assert_ok(read_format(text), &error);
    make_request(UINT64_C(1) << 41);
    mask(quote, PROMPT_TOKENS + 1, PROMPT_TOKENS + 1, logits, count);
    check_mask("\"", logits, count);
    free(logits);
}

/* One way takes one character or two, and another one tokens of five: the mask has those, too. */
static void long_tokens_are_found_beside_short_texts(void **state)
{
    static const char *const formats[] = {
        OPEN "{\"anyOf\":[{\"type\":\"string\",\"maxLength\":2},{\"const\":\" space\"}]}}}",
        OPEN "{\"pattern\":\"^.(b|.{4})$\"}}}", OPEN "{\"pattern\":\"^.(.|[^a]*)$\"}}}"};
    const int32_t count = rank_tokenizer_vocab_size(tokenizer) + VOCAB_MORE;
    const int32_t quote[PROMPT_TOKENS + 1] = {[PROMPT_TOKENS] = single_token('"')};
    float *logits = calloc((size_t)count, sizeof *logits);
    (void)state;
    assert_non_null(logits);
    for (size_t i = 0; i < sizeof formats / sizeof formats[0]; i++) {
        memset(logits, 0, (size_t)count * sizeof *logits);
        assert_ok(read_format(formats[i]), &error);
        make_request((UINT64_C(1) << 43) + i);
        mask(quote, PROMPT_TOKENS + 1, PROMPT_TOKENS + 1, logits, count);
        check_mask("\"", logits, count);
    }
    free(logits);
}

/* Two tokens end a text, and one of them has bytes: within a string it would cut the answer. */
static void tokens_that_end_a_text_are_not_drawn_within_it(void **state)
{
    const int32_t count = rank_tokenizer_vocab_size(tokenizer) + VOCAB_MORE;
    const int32_t tokens[PROMPT_TOKENS + 2] = {[PROMPT_TOKENS] = single_token('"'),
                                               [PROMPT_TOKENS + 1] = single_token('"')};
    float *logits = calloc((size_t)count, sizeof *logits);
    (void)state;
    assert_non_null(logits);
    assert_ok(read_format(OPEN "{\"type\":\"string\"}}}"), &error);
    make_request(UINT64_C(1) << 42);
    request.stops[request.stop_count++] = single_token('a');
    mask(tokens, PROMPT_TOKENS + 1, PROMPT_TOKENS + 1, logits, count);
    assert_true(logits[request.stops[0]] == -INFINITY && logits[request.stops[1]] == -INFINITY);
    assert_true(logits[single_token('b')] == 0);
    memset(logits, 0, (size_t)count * sizeof *logits);
    mask(tokens, PROMPT_TOKENS + 2, PROMPT_TOKENS + 2, logits, count);
    assert_true(logits[request.stops[0]] == 0 && logits[request.stops[1]] == 0);
    free(logits);
}

/* A row behind a draft has the mask of the drafted text; where that has left the grammar, nothing is masked. */
static void drafts_are_followed(void **state)
{
    (void)state;
    const int32_t count = rank_tokenizer_vocab_size(tokenizer) + VOCAB_MORE;
    rank_ids ids = {.at = (int32_t[16]){0}, .capacity = 16};
    float *logits = calloc((size_t)count, sizeof *logits);
    assert_non_null(logits);
    assert_ok(read_format(OPEN "{\"type\":\"array\",\"items\":{\"const\":7}}}}"), &error);
    make_request(UINT64_C(1) << 40);
    static const char *const drafts[] = {"[7", "[x", "["};
    for (size_t i = 0; i < 3; i++) {
        int32_t tokens[PROMPT_TOKENS + 16];
        assert_ok(rank_tokenizer_encode(tokenizer, drafts[i], strlen(drafts[i]), &ids, &error),
                  &error);
        memcpy(tokens + PROMPT_TOKENS, ids.at, ids.count * sizeof *ids.at);
        const int32_t drafted = PROMPT_TOKENS + (int32_t)ids.count;
        memset(logits, 0, (size_t)count * sizeof *logits);
        mask(tokens, drafted, PROMPT_TOKENS, logits, count);
        if (i == 1) {
            for (int32_t id = 0; id < count; id++) {
                assert_true(logits[id] == 0);
            }
        } else {
            check_mask(drafts[i], logits, count);
        }
    }
    free(logits);
}

static void an_answer_that_cannot_end_is_refused(void **state)
{
    (void)state;
    read_case(0);
    make_request(7);
    request.stop_count = 0;
    assert_status(rank_grammars_check(grammars, &request, &error), BASE_ERR_INVALID);
    assert_non_null(strstr(error.message, "ignore_eos"));
}

/* What comes from another process, and is no program. */
static void broken_grammars_are_refused(void **state)
{
    (void)state;
    read_case(0);
    const size_t count = steps_count;
    steps[3].next = (uint16_t)count;
    assert_status(proto_grammar_check(steps, count, &error), BASE_ERR_INVALID);
    read_case(0);
    steps[3].kind = PROTO_GRAMMAR_KINDS;
    assert_status(proto_grammar_check(steps, count, &error), BASE_ERR_INVALID);
    assert_status(proto_grammar_check(steps, 0, &error), BASE_ERR_LIMIT);
}

static int open_all(void **state)
{
    (void)state;
    assert_ok(rank_tokenizer_load(ORACLE_DIRECTORY "/hub_qwen2.json", &tokenizer, &error), &error);
    assert_ok(rank_grammars_create(tokenizer, rank_tokenizer_vocab_size(tokenizer) + VOCAB_MORE, 1,
                                   &grammars, &error),
              &error);
    return 0;
}

static int close_all(void **state)
{
    (void)state;
    rank_grammars_destroy(grammars);
    rank_tokenizer_destroy(tokenizer);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(schemas_mean_what_they_say),
        cmocka_unit_test(any_model_answers_in_json),
        cmocka_unit_test(many_alternatives_are_followed),
        cmocka_unit_test(many_numbers_have_room),
        cmocka_unit_test(ways_that_are_left_out_are_forbidden),
        cmocka_unit_test(long_tokens_are_found_beside_short_texts),
        cmocka_unit_test(tokens_that_end_a_text_are_not_drawn_within_it),
        cmocka_unit_test(drafts_are_followed),
        cmocka_unit_test(an_answer_that_cannot_end_is_refused),
        cmocka_unit_test(broken_grammars_are_refused),
    };
    return cmocka_run_group_tests(tests, open_all, close_all);
}
