/* budget/export.h: what spend.jsonl says of a small ledger. cli.sh looks at the other exports. */
#include "budget/export.h"

#include <string.h>

#include "ledger_fixture.h"

static int make(void **state)
{
    static ledger_fixture fixture;
    fixture_make(&fixture);
    assert_granted(fixture_account(&fixture, "phase", 50 * USD));
    *state = &fixture;
    return 0;
}

typedef struct text_buffer {
    char text[16384];
    size_t used;
} text_buffer;

static base_status put(void *context, const char *text, base_error *reterr)
{
    text_buffer *buffer = context;
    const size_t length = strlen(text);
    if (buffer->used + length >= sizeof buffer->text) {
        return base_fail(reterr, BASE_ERR_LIMIT, "the test's buffer is full");
    }
    memcpy(buffer->text + buffer->used, text, length + 1);
    buffer->used += length;
    return BASE_OK;
}

static bool put_jsonl(void *context, const budget_row *row)
{
    char text[BUDGET_EXPORT_LINE_BYTES];
    return !budget_export_jsonl(row, text) || put(context, text, NULL) == BASE_OK;
}

static void contains(const text_buffer *buffer, const char *text)
{
    if (strstr(buffer->text, text) == NULL) {
        fail_msg("there is no \"%s\" in:\n%s", text, buffer->text);
    }
}

static void exports_say_what_the_ledger_holds(void **state)
{
    ledger_fixture *fixture = *state;
    static text_buffer jsonl;
    assert_granted(fixture_account(fixture, "phase/lab02", 5 * USD));
    assert_granted(fixture_authorize(fixture, "phase/lab02", "one", 2 * USD));
    assert_granted(fixture_create(fixture, "one"));
    assert_granted(fixture_line(fixture, "one", 1234567, "line-1"));
    assert_granted(fixture_attest(fixture, "one"));
    assert_granted(fixture_authorize(fixture, "phase", "two", 2 * USD));
    assert_granted(fixture_create(fixture, "two"));
    assert_granted(fixture_attach(fixture, "two", "pod-two"));
    assert_granted(fixture_prove(fixture, "two", "pod-two"));
    assert_ok(budget_ledger_rows(fixture->ledger, 0, 1000, put_jsonl, &jsonl, &fixture->error),
              &fixture->error);
    contains(&jsonl, "{\"seq\":4,\"at\":\"2026-11-18T11:06:40Z\",\"event\":\"authorized\","
                     "\"label\":\"one\",\"account\":\"phase/lab02\",\"usd\":\"2.00\","
                     "\"usd_micro\":2000000,\"state\":\"reserved\"}\n");
    contains(&jsonl, "\"event\":\"actual\",\"label\":\"one\",\"account\":\"phase/lab02\","
                     "\"usd\":\"1.234567\",\"usd_micro\":1234567,\"line_id\":\"line-1\"");
    contains(&jsonl,
             "\"event\":\"terminated\",\"label\":\"one\",\"account\":\"phase/lab02\","
             "\"state\":\"terminated-unbilled\",\"proof\":\"attested\",\"evidence_blake2b256\":\"");
}

/* A credit above what was posted stands there whole, and in two parts. */
static void a_credit_shows_what_does_not_count(void **state)
{
    ledger_fixture *fixture = *state;
    static text_buffer jsonl;
    assert_granted(fixture_authorize(fixture, "phase", "one", 2 * USD));
    assert_granted(fixture_create(fixture, "one"));
    assert_granted(fixture_line(fixture, "one", USD, "line-1"));
    assert_granted(fixture_line(fixture, "one", -3 * USD, "line-2"));
    assert_ok(budget_ledger_rows(fixture->ledger, 0, 1000, put_jsonl, &jsonl, &fixture->error),
              &fixture->error);
    contains(&jsonl, "\"usd\":\"-1.00\",\"usd_micro\":-1000000,"
                     "\"uncounted_usd_micro\":-2000000,\"line_id\":\"line-2\"");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(exports_say_what_the_ledger_holds, make, fixture_teardown),
        cmocka_unit_test_setup_teardown(a_credit_shows_what_does_not_count, make, fixture_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
