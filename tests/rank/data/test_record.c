/* Lines of the data file: those that are read, those that are refused, and that the quick parser
 * and jansson agree. */
#include "record.h"

#include <string.h>

#include "random.h"
#include "rank/data.h"
#include "support.h"

enum { MUTATIONS = 20000, LINE_BYTES_MAX = 256 };

static bool is_text(const rank_record_string *string, const char *text)
{
    return string->data != NULL && string->bytes == strlen(text) &&
           memcmp(string->data, text, string->bytes) == 0;
}

static void good_lines_are_read(void **state)
{
    (void)state;
    static const struct {
        const char *line;
        const char *text;
        bool pair;
        bool quick;
    } lines[] = {
        {"{\"text\":\"he went\"}", "he went", false, true},
        {" \t{ \"text\" : \"he went\" , \"x\":\"\" } \r", "he went", false, true},
        {"{\"text\":\"a \xe2\x86\x92 b\",\"wrong\":\"a\",\"right\":\"b\"}", "a \xe2\x86\x92 b",
         true, true},
        {"{\"right\":\"b\",\"rule\":\"r\",\"text\":\"a \xe2\x86\x92 b\",\"wrong\":\"a\"}",
         "a \xe2\x86\x92 b", true, true},
        {"{\"text\":\"a \\u2192 b\",\"wrong\":\"a\",\"right\":\"b\"}", "a \xe2\x86\x92 b", true,
         false},
        {"{\"text\":\"say \\\"hi\\\"\\n\"}", "say \"hi\"\n", false, false},
        {"{\"id\":17,\"tags\":[\"a\",{\"b\":null}],\"text\":\"he went\"}", "he went", false, false},
        {"{\"hash\":17293822569102704640,\"x\":-9223372036854775809,\"text\":\"a\"}", "a", false,
         false},
        {"{\"text\":\"\xf0\x9f\x91\x8d\xc3\xa9\"}", "\xf0\x9f\x91\x8d\xc3\xa9", false, true},
        {"{\"text\":\"\xef\xbb\xbfhe went\"}", "he went", false, true},
        {"{\"text\":\"\\ufeffhe went\"}", "he went", false, false},
    };
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        base_error error;
        rank_record record;
        const size_t bytes = strlen(lines[i].line);
        assert_ok(rank_record_read(lines[i].line, bytes, &record, &error), &error);
        assert_true(is_text(&record.text, lines[i].text));
        assert_int_equal(record.wrong.data != NULL, lines[i].pair);
        rank_record_clear(&record);
        assert_ok(rank_record_read_slow(lines[i].line, bytes, &record, &error), &error);
        assert_true(is_text(&record.text, lines[i].text));
        rank_record_clear(&record);
        assert_int_equal(rank_record_read_quick(lines[i].line, bytes, &record), lines[i].quick);
        rank_record_clear(&record);
    }
}

static void prompts_and_chats_are_read(void **state)
{
    (void)state;
    static const struct {
        const char *line;
        rank_record_kind kind;
        const char *text;
        bool quick;
    } lines[] = {
        {"{\"prompt\":\"2+2=\",\"completion\":\"4\"}", RANK_RECORD_PROMPT, "2+2=4", true},
        {"{\"completion\":\"4\\n\",\"prompt\":\"\",\"id\":3}", RANK_RECORD_PROMPT, "4\n", false},
        {"{\"prompt\":7,\"text\":\"a\"}", RANK_RECORD_TEXT, "a", false},
        {"{\"prompt\":\"p\",\"text\":\"a\"}", RANK_RECORD_TEXT, "a", true},
        {"{\"prompt\":\"\xef\xbb\xbfp\",\"completion\":\"c\"}", RANK_RECORD_PROMPT, "pc", true},
        {"{\"wrong\":\"\xef\xbb\xbfw\",\"right\":\"r\"}", RANK_RECORD_PAIR, "w \xe2\x86\x92 r",
         true},
        {"{\"messages\":[{\"role\":\"user\",\"content\":\"\\ufeffhi\"}]}", RANK_RECORD_CHAT, "hi\n",
         false},
        {"{\"prompt\":\"p\",\"completion\":\"c\",\"text\":null,\"messages\":null}",
         RANK_RECORD_PROMPT, "pc", false},
        {"{\"messages\":[{\"role\":\"user\",\"content\":\"hi\"},{\"content\":\"ho\",\"x\":1,"
         "\"role\":\"assistant\"}],\"prompt\":\"hi\"}",
         RANK_RECORD_CHAT, "hi\nho\n", false},
        {"{\"messages\":[{\"role\":\"developer\",\"content\":[{\"type\":\"text\",\"text\":\"a\"},"
         "{\"type\":\"text\",\"text\":\" "
         "b\"}]},{\"role\":\"user\",\"name\":\"n\",\"content\":\"\"}],"
         "\"tools\":{},\"functions\":\"[]\"}",
         RANK_RECORD_CHAT, "a b\n\n", false},
        {"{\"conversations\":[{\"from\":\"human\",\"value\":\"hi\"},{\"from\":\"gpt\","
         "\"value\":\"ho\"}],\"system\":\"\",\"text\":\"a\"}",
         RANK_RECORD_CHAT, "hi\nho\n", false},
        {"{\"conversations\":\"a\",\"messages\":[{\"from\":\"user\",\"value\":\"a\"}]}",
         RANK_RECORD_CHAT, "a\n", false},
        {"{\"instruction\":\"i\",\"output\":\"o\",\"text\":\"a\"}", RANK_RECORD_TEXT, "a", true},
    };
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        base_error error;
        rank_record record;
        char text[64];
        const size_t bytes = strlen(lines[i].line);
        assert_ok(rank_record_read(lines[i].line, bytes, &record, &error), &error);
        assert_int_equal(rank_record_kind_of(&record), lines[i].kind);
        rank_record_text(&record, text);
        assert_string_equal(text, lines[i].text);
        assert_int_equal(rank_record_text_bytes(&record), strlen(text));
        rank_record_clear(&record);
        assert_int_equal(rank_record_read_quick(lines[i].line, bytes, &record), lines[i].quick);
        rank_record_clear(&record);
    }
}

/* The roles and the weights, as OpenAI's format for fine-tuning has them. */
static void messages_have_roles_and_weights(void **state)
{
    (void)state;
    static const char line[] =
        "{\"messages\":[{\"role\":\"developer\",\"content\":\"s\"},"
        "{\"role\":\"user\",\"content\":\"q\",\"weight\":1},"
        "{\"role\":\"assistant\",\"content\":[{\"type\":\"text\",\"text\":\"a\"},"
        "{\"type\":\"text\",\"text\":\"b\"}],\"weight\":0},"
        "{\"role\":\"assistant\",\"content\":\"c\",\"weight\":1.0},"
        "{\"role\":\"assistant\",\"content\":\"d\",\"weight\":null}]}";
    static const char texts[] = "system\0s\0user\0q\0assistant\0ab\0assistant\0c\0assistant\0d";
    static const uint8_t passed_over[] = {0, 0, 1, 0, 0};
    base_error error;
    rank_record record;
    assert_ok(rank_record_read(line, sizeof line - 1, &record, &error), &error);
    assert_int_equal(record.message_count, sizeof passed_over);
    assert_int_equal(record.messages.bytes, sizeof texts);
    assert_memory_equal(record.messages.data, texts, sizeof texts);
    assert_memory_equal(record.passed_over, passed_over, sizeof passed_over);
    rank_record_clear(&record);
}

/* Tools stand before the messages, also where they are a text, and are not shown; a call is JSON. */
static void messages_have_tools(void **state)
{
    (void)state;
#define TOOLS "[{\"type\":\"function\",\"function\":{\"name\":\"f\"}}]"
    static const char *const lines[] = {
        "{\"messages\":[{\"role\":\"user\",\"content\":\"q\"},{\"role\":\"assistant\","
        "\"tool_calls\":[{\"type\":\"function\",\"function\":{\"name\":\"f\",\"arguments\":{}}}]}"
        "],\"tools\":" TOOLS "}",
        "{\"tools\":\"[{\\\"type\\\":\\\"function\\\",\\\"function\\\":{\\\"name\\\":\\\"f\\\"}}]"
        "\",\"conversations\":[{\"from\":\"human\",\"value\":\"q\"},{\"from\":\"gpt\","
        "\"tool_calls\":[{\"type\":\"function\",\"function\":{\"name\":\"f\",\"arguments\":\"{}\"}"
        "}]}]}",
    };
#define CALL                                                                                       \
    "{\"role\":\"assistant\",\"content\":\"\",\"tool_calls\":[{\"type\":\"function\","             \
    "\"function\":"                                                                                \
    "{\"name\":\"f\",\"arguments\":{}}}]}"
    static const char texts[] = "tools\0" TOOLS "\0user\0q\0message\0" CALL;
    static const uint8_t passed_over[] = {1, 0, 0};
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        base_error error;
        rank_record record;
        char shown[256];
        assert_ok(rank_record_read(lines[i], strlen(lines[i]), &record, &error), &error);
        assert_int_equal(record.message_count, sizeof passed_over);
        assert_int_equal(record.messages.bytes, sizeof texts);
        assert_memory_equal(record.messages.data, texts, sizeof texts);
        assert_memory_equal(record.passed_over, passed_over, sizeof passed_over);
        rank_record_text(&record, shown);
        assert_string_equal(shown, "\nq\n" CALL "\n");
        assert_int_equal(strlen(shown), rank_record_text_bytes(&record));
        rank_record_clear(&record);
    }
}

/* A line, and what its refusal says. */
typedef struct bad_line {
    const char *line;
    const char *reason;
} bad_line;

static void expect_refused(const bad_line *lines, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        base_error error = {.status = BASE_OK};
        rank_record record;
        const base_status status =
            rank_record_read(lines[i].line, strlen(lines[i].line), &record, &error);
        rank_record_clear(&record);
        if (status != BASE_ERR_INVALID || strstr(error.message, lines[i].reason) == NULL) {
            fail_msg("%s: \"%s\", expected \"%s\"", lines[i].line, error.message, lines[i].reason);
        }
    }
}

static void bad_lines_are_refused_with_a_reason(void **state)
{
    (void)state;
    static const bad_line lines[] = {
        {"", "empty"},
        {"  \r", "empty"},
        {"he went", "column"},
        {"\"he went\"", "column"},
        {"[\"text\"]", "jq -c"},
        {" [", "jq -c"},
        {"{}", "no \"text\""},
        {"{\"txt\":\"he went\"}", "no \"text\""},
        {"{\"text\":\"\"}", "\"text\" is empty"},
        {"{\"text\":17}", "\"text\" is not a string"},
        {"{\"text\":17293822569102704640}", "\"text\" is not a string"},
        {"{\"text\":null}", "no \"text\""},
        {"{\"text\":\"a\",\"text\":\"b\"}", "duplicate"},
        {"{\"text\":\"a\",\"x\":\"1\",\"x\":\"2\"}", "duplicate"},
        {"{\"text\":\"a\"", "column"},
        {"{\"text\":\"a\"}}", "column"},
        {"{\"text\":\"a\",}", "column"},
        {"{\"text\":\"a\" \"b\":\"c\"}", "column"},
        {"{\"text\":\"a\tb\"}", "column"},
        {"{\"text\":\"a\\q\"}", "column"},
        {"{\"text\":\"a\\u0000b\"}", "column"},
        {"{\"text\":\"a\\ud800b\"}", "column"},
        {"{\"text\":\"\xff\"}", "not UTF-8"},
        {"{\"text\":\"\xc0\xaf\"}", "not UTF-8"},
        {"{\"text\":\"\xed\xa0\x80\"}", "not UTF-8"},
        {"{\"text\":\"\xf4\x90\x80\x80\"}", "not UTF-8"},
        {"{\"text\":\"\xe2\x86\"}", "not UTF-8"},
        {"{\"text\":\"a \xe2\x86\x92 b\",\"wrong\":\"a\"}", "go together"},
        {"{\"text\":\"a \xe2\x86\x92 b\",\"right\":\"b\"}", "go together"},
        {"{\"text\":\"a -> b\",\"wrong\":\"a\",\"right\":\"b\"}", "is not \"wrong"},
        {"{\"text\":\"a \xe2\x86\x92 c\",\"wrong\":\"a\",\"right\":\"b\"}", "is not \"wrong"},
        {"{\"text\":\"a\",\"wrong\":\"a\",\"right\":1}", "\"right\" is not a string"},
        {"{\"prompt\":\"a\"}", "\"prompt\" and \"completion\" go together"},
        {"{\"completion\":\"a\"}", "\"prompt\" and \"completion\" go together"},
        {"{\"prompt\":\"a\",\"completion\":\"\"}", "\"completion\" is empty"},
        {"{\"prompt\":[],\"completion\":\"a\"}", "\"prompt\" is not a string"},
    };
    expect_refused(lines, sizeof lines / sizeof *lines);
    rank_record record;
    assert_status(rank_record_read("{\"text\":\"a\0b\"}", 14, &record, NULL), BASE_ERR_INVALID);
    rank_record_clear(&record);
}

/* What no template that is known writes is refused, and not passed over: the answers would be to something else. */
static void bad_chats_are_refused_with_a_reason(void **state)
{
    (void)state;
    static const bad_line lines[] = {
        {"{\"messages\":\"a\",\"text\":\"b\"}", "\"messages\" is not an array"},
        {"{\"messages\":[]}", "\"messages\" is not an array"},
        {"{\"messages\":[{\"role\":\"user\",\"content\":\"a\"},{\"content\":\"b\"}]}",
         "message 2: its role must be system, user, assistant or tool"},
        {"{\"messages\":[{\"role\":\"function\",\"content\":\"a\"}]}",
         "message 1: its role must be system, user, assistant or tool, and is function"},
        {"{\"messages\":[{\"role\":\"user\",\"content\":null}]}",
         "message 1: its content is not a string, nor a list of texts"},
        {"{\"messages\":[{\"role\":\"user\",\"content\":[]}]}",
         "message 1: its content is not a string, nor a list of texts"},
        {"{\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"image_url\",\"text\":\"a\"}]}]"
         "}",
         "message 1: its content is not a string, nor a list of texts"},
        {"{\"messages\":[{\"role\":\"user\",\"content\":[\"a\"]}]}",
         "message 1: its content is not a string, nor a list of texts"},
        {"{\"messages\":[{\"role\":\"assistant\",\"content\":\"a\",\"weight\":0.5}]}",
         "message 1: its weight is not 0 or 1"},
        {"{\"messages\":[{\"role\":\"assistant\",\"content\":\"a\",\"weight\":\"1\"}]}",
         "message 1: its weight is not 0 or 1"},
        {"{\"messages\":[{\"role\":\"assistant\",\"content\":null,\"tool_calls\":[{\"id\":\"c\"}]}]"
         "}",
         "message 1: its tool_calls: entry 0 must be"},
        {"{\"messages\":[{\"role\":\"assistant\",\"content\":\"\",\"function_call\":{\"name\":"
         "\"f\"}}]}",
         "message 1: \"function_call\": the older form of tools and tool_calls: make it these"},
        {"{\"messages\":[{\"role\":\"user\",\"content\":\"a\"}],\"tools\":[{\"type\":\"function\"}]"
         "}",
         "tools: entry 0 must be"},
        {"{\"conversations\":[]}", "\"conversations\" is not an array of messages"},
        {"{\"conversations\":[{\"from\":\"observation\",\"value\":\"a\"}]}",
         "message 1: its role must be system, user, assistant or tool, and is observation"},
        {"{\"conversations\":[{\"from\":\"human\",\"value\":7}]}", "message 1: its content is not"},
        {"{\"conversations\":[{\"from\":\"human\",\"value\":\"a\"}],\"tools\":\"[{}]\"}",
         "tools: entry 0 must be"},
        {"{\"conversations\":[{\"from\":\"human\",\"value\":\"a\"}],\"system\":\"s\"}",
         "\"system\" beside \"conversations\": make it their first message"},
        {"{\"messages\":[{\"role\":\"user\",\"content\":\"a\"}],\"system\":[\"s\"]}",
         "\"system\" beside \"messages\": make it their first message"},
        {"{\"instruction\":\"i\",\"input\":\"\",\"output\":\"o\"}",
         "\"instruction\" and \"output\" are not read: make them \"prompt\" and \"completion\""},
    };
    expect_refused(lines, sizeof lines / sizeof *lines);
}

static void mutate(char *line, size_t *bytes, uint64_t *random)
{
    static const char marks[] = "\"\\{}[]:, \t\r\x01u0e9\xe2\x86\x92\xff";
    for (uint32_t edits = 1 + test_random(random) % 3; edits > 0; edits--) {
        const size_t at = test_random(random) % *bytes;
        const char mark = marks[test_random(random) % (sizeof marks - 1)];
        switch (test_random(random) % 3) {
        case 0:
            line[at] = mark;
            break;
        case 1:
            memmove(line + at + 1, line + at, *bytes - at);
            line[at] = mark;
            ++*bytes;
            break;
        default:
            memmove(line + at, line + at + 1, *bytes - at - 1);
            --*bytes;
        }
    }
}

/* The quick parser never accepts a line that jansson refuses, and reads the same from those that it
 * accepts. */
static void mutated_lines_are_read_alike_by_both_parsers(void **state)
{
    (void)state;
    static const char *const seeds[] = {
        ("{\"text\":\"he goed \xe2\x86\x92 he went\",\"wrong\":\"he goed\",\"right\":\"he went\","
         "\"rule\":\"over\"}"),
        "{\"prompt\":\"he goed\",\"completion\":\"he went\"}",
        "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"}],\"text\":\"b\"}",
    };
    uint64_t random = 35000;
    int quick_count = 0;
    int refused_count = 0;
    for (int i = 0; i < MUTATIONS; i++) {
        char line[LINE_BYTES_MAX];
        const char *seed = seeds[i % (int)(sizeof seeds / sizeof seeds[0])];
        size_t bytes = strlen(seed);
        char texts[2][LINE_BYTES_MAX];
        rank_record quick;
        rank_record slow;
        memcpy(line, seed, bytes);
        mutate(line, &bytes, &random);
        const bool taken = rank_record_read_quick(line, bytes, &quick);
        const base_status status = rank_record_read_slow(line, bytes, &slow, NULL);
        if (taken) {
            assert_int_equal(status, BASE_OK);
            assert_int_equal(rank_record_kind_of(&quick), rank_record_kind_of(&slow));
            rank_record_text(&quick, texts[0]);
            rank_record_text(&slow, texts[1]);
            assert_string_equal(texts[0], texts[1]);
            assert_int_equal(quick.wrong.data == NULL, slow.wrong.data == NULL);
            quick_count++;
        }
        refused_count += status != BASE_OK;
        rank_record_clear(&quick);
        rank_record_clear(&slow);
    }
    assert_true(quick_count > MUTATIONS / 100);
    assert_true(refused_count > MUTATIONS / 100);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(good_lines_are_read),
        cmocka_unit_test(prompts_and_chats_are_read),
        cmocka_unit_test(messages_have_roles_and_weights),
        cmocka_unit_test(messages_have_tools),
        cmocka_unit_test(bad_lines_are_refused_with_a_reason),
        cmocka_unit_test(bad_chats_are_refused_with_a_reason),
        cmocka_unit_test(mutated_lines_are_read_alike_by_both_parsers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
