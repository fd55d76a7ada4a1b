/* budget/export.h: what the lines say of a small ledger. cli.sh looks at the other exports. */
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

/* What each row says it changed is what the balance changed by. An audit does not look at that: it
 * makes the rows anew. */
static bool add_up(void *context, const budget_row *row)
{
    budget_account *sums = context;
    sums->reserved_usd_micro += row->reserved_delta;
    sums->posted_usd_micro += row->posted_delta;
    return true;
}

static void changes_add_up_to_the_balance(void **state)
{
    ledger_fixture *fixture = *state;
    for (int step = 0; step < 6; step++) {
        budget_account sums = {.reserved_usd_micro = 0};
        assert_granted(step == 0   ? fixture_authorize(fixture, "phase", "one", 2 * USD)
                       : step == 1 ? fixture_create(fixture, "one")
                       : step == 2 ? fixture_line(fixture, "one", USD, "line-1")
                       : step == 3 ? fixture_line(fixture, "one", USD / 2, "line-2")
                       : step == 4 ? fixture_line(fixture, "one", -USD / 4, "line-3")
                                   : fixture_attest(fixture, "one"));
        assert_ok(budget_ledger_rows(fixture->ledger, 0, 1000, add_up, &sums, &fixture->error),
                  &fixture->error);
        fixture_check(fixture, "phase", sums.reserved_usd_micro, sums.posted_usd_micro);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(exports_say_what_the_ledger_holds, make, fixture_teardown),
        cmocka_unit_test_setup_teardown(a_credit_shows_what_does_not_count, make, fixture_teardown),
        cmocka_unit_test_setup_teardown(changes_add_up_to_the_balance, make, fixture_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
