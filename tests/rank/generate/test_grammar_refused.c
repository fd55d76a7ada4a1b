/* Schemas that no grammar is made of: each is refused by what it is that is not supported. */
#include <jansson.h>
#include <string.h>

#include "serve/schema.h"
#include "support.h"

#define OPEN "{\"type\":\"json_schema\",\"json_schema\":{\"name\":\"a\",\"strict\":true,\"schema\":"

static proto_grammar_step steps[PROTO_GRAMMAR_STEPS_MAX];
static uint32_t steps_count;
static base_error error;

static base_status read_format(const char *text)
{
    json_t *value = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
    assert_non_null(value);
    const base_status status = launch_schema_read(value, steps, &steps_count, &error);
    json_decref(value);
    return status;
}

static void what_is_not_supported_is_named(void **state)
{
    (void)state;
    static const struct {
        const char *format;
        const char *says;
    } wrong[] = {
        {"{\"type\":\"grammar\"}", "response_format: must be"},
        {"{\"type\":\"json_schema\"}", "response_format: must be"},
        {"{\"type\":\"json_object\",\"schema\":{}}", "response_format: must be"},
        {"{\"type\":\"json_schema\",\"json_schema\":{\"schema\":{},\"more\":1}}", "must be"},
        {OPEN "{\"type\":\"number\",\"multipleOf\":3}}}", "\"multipleOf\": not supported"},
        {OPEN "{\"properties\":{\"b\":{\"pattern\":\"a**\"}}}}}",
         "\"pattern\" of \"b\": a quantifier"},
        {OPEN "{\"type\":\"string\",\"format\":\"email\"}}}", "\"format\": must be date"},
        {OPEN "{\"pattern\":\"a\",\"format\":\"date\"}}}", "\"pattern\": not supported beside"},
        {OPEN "{\"format\":\"uuid\",\"maxLength\":9}}}", "\"format\": no text of such a length"},
        {OPEN "{\"pattern\":1}}}", "\"pattern\": must be a text"},
        {OPEN "{\"minLength\":-1}}}", "\"minLength\": is out of range"},
        {OPEN "{\"minLength\":2,\"maxLength\":1}}}", "\"minLength\": is out of range"},
        {OPEN "{\"maxLength\":true}}}", "\"maxLength\": is out of range"},
        {OPEN "{\"maxLength\":9223372036854775807}}}", "more than 4096 steps"},
        {OPEN "{\"minLength\":9223372036854775807}}}", "more than 4096 steps"},
        {OPEN "{\"minLength\":1,\"enum\":[\"a\"]}}}", "\"minLength\": not supported beside"},
        {OPEN "{\"minimum\":\"1\"}}}", "\"minimum\": must be a number"},
        {OPEN "{\"maximum\":1,\"exclusiveMaximum\":true}}}",
         "\"exclusiveMaximum\": must be a number"},
        {OPEN "{\"minimum\":1,\"maximum\":0}}}", "\"minimum\": no number of at most 15 digits"},
        {OPEN "{\"exclusiveMaximum\":-1e15}}}",
         "\"exclusiveMaximum\": no number of at most 15 digits"},
        {OPEN "{\"type\":\"integer\",\"exclusiveMinimum\":1,\"exclusiveMaximum\":2}}}",
         "\"exclusiveMinimum\": no number of at most 15 digits"},
        {OPEN "{\"type\":\"object\",\"properties\":{},\"required\":[\"a\"]}}}",
         "\"required\": has"},
        {OPEN "{\"required\":[\"a\"]}}}", "\"required\": has"},
        {OPEN "{\"required\":{}}}}", "\"required\": must be a list"},
        {OPEN "{\"properties\":[]}}}", "\"properties\": must be an object"},
        {OPEN "{\"type\":\"text\"}}}", "\"type\": there is no such type"},
        {OPEN "{\"type\":7}}}", "\"type\": must be a list"},
        {OPEN "{\"type\":[{\"type\":\"null\"}]}}}", "\"type\": must be a text"},
        {OPEN "{\"anyOf\":[\"string\"]}}}", "\"schema\": must be an object"},
        {OPEN "{\"enum\":[1],\"type\":[\"x\",\"x\",\"x\",\"x\",\"x\",\"x\",\"x\",\"x\"]}}}",
         "\"type\": a list of more"},
        {OPEN "{\"oneOf\":[{}]}}}", "\"oneOf\": not supported without a discriminator"},
        {OPEN "{\"anyOf\":[{}],\"type\":\"string\"}}}", "\"type\": not supported beside"},
        {OPEN "{\"anyOf\":[]}}}", "\"anyOf\": must be a list"},
        {OPEN "{\"allOf\":[{},{}]}}}", "\"allOf\": more than one"},
        {OPEN "{\"enum\":[[1]]}}}", "\"enum\": must be texts"},
        {OPEN "{\"enum\":[1],\"type\":\"string\"}}}", "\"enum\": has no value of its type"},
        {OPEN "{\"$ref\":\"#/$defs/a\"}}}", "\"$ref\": must name"},
        {OPEN "{\"$ref\":\"#\"}}}", "no answer can end"},
        {OPEN "{\"$ref\":\"#/$defs/~2\",\"$defs\":{\"~2\":{}}}}}", "\"$ref\": must name"},
        {OPEN "{\"$ref\":\"#/$defs/%4\",\"$defs\":{\"%4\":{}}}}}", "\"$ref\": must name"},
        {OPEN "{\"$ref\":\"#/$defs/%2F\",\"$defs\":{\"/\":{}}}}}", "\"$ref\": must name"},
        {OPEN "{\"$ref\":\"#/anyOf/1\",\"$defs\":{}}}}", "\"$ref\": must name"},
        {OPEN "{\"$ref\":\"\"}}}", "\"$ref\": must name"},
        {OPEN "{\"type\":\"array\",\"minItems\":2,\"maxItems\":1}}}", "is out of range"},
        {OPEN "{\"type\":\"array\",\"maxItems\":100000}}}", "more than 4096 steps"},
        {OPEN "{\"type\":\"array\",\"items\":{\"$ref\":\"#\"},\"minItems\":1}}}",
         "no answer can end"},
        {OPEN "3}}", "\"schema\": must be an object"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        assert_true(read_format(wrong[i].format) != BASE_OK);
        if (strstr(error.message, wrong[i].says) == NULL) {
            fail_msg("%s: %s", wrong[i].format, error.message);
        }
        assert_int_equal(steps_count, 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_not_supported_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
