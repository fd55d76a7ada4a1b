#include "budget/reconcile.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "budget/export.h"
#include "ledger_fixture.h"

enum { FINDINGS = 8 };

typedef struct findings_seen {
    int count;
    struct {
        budget_finding_kind kind;
        char label[BUDGET_LABEL_BYTES];
    } findings[FINDINGS];
} findings_seen;

static int make(void **state)
{
    static ledger_fixture fixture;
    fixture_make(&fixture);
    assert_granted(fixture_account(&fixture, "phase", 50 * USD));
    *state = &fixture;
    return 0;
}

static int take_down(void **state)
{
    fixture_remove(*state);
    return 0;
}

static void note(void *context, const budget_finding *finding)
{
    findings_seen *seen = context;
    if (seen->count < FINDINGS) {
        seen->findings[seen->count].kind = finding->kind;
        (void)snprintf(seen->findings[seen->count].label, BUDGET_LABEL_BYTES, "%s", finding->label);
    }
    seen->count++;
}

static budget_reconciled reconcile(ledger_fixture *fixture, const char *bill, findings_seen *found)
{
    budget_charge *charges = NULL;
    budget_reconciled result;
    size_t count = 0;
    memset(found, 0, sizeof *found);
    assert_ok(
        budget_bill_parse(bill, strlen(bill), BUDGET_BILL_CSV, &charges, &count, &fixture->error),
        &fixture->error);
    const budget_reconcile_options options = {
        .as_of_s = fixture->clock.wall_ms / 1000, .charges = charges, .count = count};
    fixture_begin(fixture);
    assert_ok(budget_reconcile_run(fixture->ledger, NULL, &options, &result, note, found,
                                   &fixture->error),
              &fixture->error);
    fixture_commit(fixture);
    free(charges);
    return result;
}

static void expect(const budget_reconciled *result, int matched, int missing_in_bill,
                   int missing_in_ledger, int differing, int unknown)
{
    assert_int_equal(result->counts[BUDGET_FINDING_MATCHED], matched);
    assert_int_equal(result->counts[BUDGET_FINDING_MISSING_IN_BILL], missing_in_bill);
    assert_int_equal(result->counts[BUDGET_FINDING_MISSING_IN_LEDGER], missing_in_ledger);
    assert_int_equal(result->counts[BUDGET_FINDING_DIFFERING], differing);
    assert_int_equal(result->counts[BUDGET_FINDING_UNKNOWN], unknown);
}

static int64_t spent(ledger_fixture *fixture)
{
    int64_t usd_micro = -1;
    assert_ok(budget_ledger_total_spent(fixture->ledger, NULL, &usd_micro, &fixture->error),
              &fixture->error);
    return usd_micro;
}

/* A run that was created and ended; cost by hand unless negative. */
static void run(ledger_fixture *fixture, const char *label, int64_t by_hand)
{
    char instance[BUDGET_INSTANCE_BYTES];
    (void)snprintf(instance, sizeof instance, "pod-%s", label);
    assert_granted(fixture_authorize(fixture, "phase", label, 2 * USD));
    assert_granted(fixture_create(fixture, label));
    assert_granted(fixture_attach(fixture, label, instance));
    assert_granted(fixture_prove(fixture, label, instance));
    if (by_hand >= 0) {
        assert_granted(fixture_actual(fixture, label, by_hand));
    }
}

static void a_bill_that_fits_is_matched_and_posted(void **state)
{
    ledger_fixture *fixture = *state;
    findings_seen found;
    run(fixture, "a", -1);
    run(fixture, "b", USD);
    run(fixture, "c", 1230000);
    assert_granted(fixture_authorize(fixture, "phase", "unused", USD));
    const char *bill = "label,instance_id,usd,line_id\n"
                       "a,,0.25,1\n,pod-a,0.25,2\nb,,0.4,3\nb,,0.6,4\n,pod-c,1.234567,5\n";
    for (int again = 0; again < 2; again++) {
        const budget_reconciled result = reconcile(fixture, bill, &found);
        expect(&result, 3, 0, 0, 0, 0);
        assert_int_equal(result.recorded, again == 0 ? 5 : 0);
        assert_int_equal(spent(fixture), 500000 + 1000000 + 1234567);
    }
    assert_int_equal(fixture_find(fixture, "a").state, BUDGET_STATE_POSTED);
    /* the next bill brings another line, and a credit */
    const budget_reconciled result =
        reconcile(fixture, "label,usd,line_id\nb,0.05,7\na,-0.1,8\n", &found);
    expect(&result, 2, 0, 0, 0, 0);
    assert_int_equal(spent(fixture), 400000 + 1050000 + 1234567);
}

static void what_differs_is_not_posted(void **state)
{
    ledger_fixture *fixture = *state;
    findings_seen found;
    run(fixture, "a", USD);
    for (int again = 0; again < 2; again++) {
        const budget_reconciled result =
            reconcile(fixture, "label,usd,line_id\na,1.01,1\n", &found);
        expect(&result, 0, 0, 0, 1, 0);
        assert_int_equal(found.count, 1);
        assert_string_equal(found.findings[0].label, "a");
        assert_int_equal(spent(fixture), USD);
    }
    assert_granted(fixture_actual(fixture, "a", 10000)); /* a person has looked */
    budget_reconciled result = reconcile(fixture, "label,usd,line_id\na,1.01,1\n", &found);
    expect(&result, 1, 0, 0, 0, 0);
    result = reconcile(fixture, "label,usd,line_id\na,1.50,1\n", &found); /* a line has changed */
    expect(&result, 0, 0, 0, 1, 0);
    assert_int_equal(spent(fixture), 1010000);
    assert_granted(fixture_actual(fixture, "a", 490000));
    result = reconcile(fixture, "label,usd,line_id\na,1.50,1\n", &found);
    expect(&result, 1, 0, 0, 0, 0);
    assert_int_equal(spent(fixture), 1500000);
}

static void rounding_is_half_a_cent_a_line(void **state)
{
    ledger_fixture *fixture = *state;
    findings_seen found;
    run(fixture, "a", USD);
    budget_reconciled result = reconcile(fixture, "label,usd,line_id\na,1.005001,1\n", &found);
    expect(&result, 0, 0, 0, 1, 0);
    result = reconcile(fixture, "label,usd,line_id\na,1.005,1\n", &found);
    expect(&result, 1, 0, 0, 0, 0);
    assert_int_equal(spent(fixture), 1005000);
}

static void what_is_missing_is_named(void **state)
{
    ledger_fixture *fixture = *state;
    findings_seen found;
    run(fixture, "posted", USD);
    run(fixture, "ended", -1);
    run(fixture, "nothing", 0);
    assert_granted(fixture_authorize(fixture, "phase", "running", USD));
    assert_granted(fixture_create(fixture, "running"));
    const budget_reconciled result = reconcile(
        fixture, "label,instance_id,usd\nwho,,1\n,pod-who,1\n,,0.5\nnothing,,0.30\n", &found);
    expect(&result, 0, 2, 2, 1, 2);
    assert_int_equal(spent(fixture), USD);
    fixture_pass(fixture, 60);
    run(fixture, "later", USD);
    fixture->clock.wall_ms -= 30000; /* as of a moment before "later" */
    fixture->clock.boot_ms -= 30000;
    const budget_reconciled earlier = reconcile(fixture, "label,usd\n", &found);
    expect(&earlier, 0, 2, 0, 0, 1);
}

static void a_bill_above_its_reservation_freezes(void **state)
{
    ledger_fixture *fixture = *state;
    findings_seen found;
    run(fixture, "a", -1);
    const budget_reconciled result = reconcile(fixture, "label,usd\na,2.000001\n", &found);
    expect(&result, 1, 0, 0, 0, 0);
    assert_true(result.frozen);
    assert_true(fixture_balance(fixture, "phase").frozen);
    assert_int_equal(spent(fixture), 2000001);
}

static void two_lines_of_one_id_are_refused(void **state)
{
    ledger_fixture *fixture = *state;
    budget_reconciled result;
    budget_charge charges[2] = {{.line_id = "1", .label = "a", .usd_micro = 1},
                                {.line_id = "1", .label = "a", .usd_micro = 2}};
    const budget_reconcile_options options = {
        .as_of_s = INT64_MAX / 1000, .charges = charges, .count = 2};
    run(fixture, "a", -1);
    fixture_begin(fixture);
    assert_status(budget_reconcile_run(fixture->ledger, NULL, &options, &result, NULL, NULL, NULL),
                  BASE_ERR_INVALID);
    fixture_commit(fixture);
    assert_int_equal(spent(fixture), 0);
}

/* ---- exports ---- */

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

static bool put_hledger(void *context, const budget_row *row)
{
    char text[BUDGET_EXPORT_LINE_BYTES];
    return !budget_export_hledger(row, text) || put(context, text, NULL) == BASE_OK;
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
    static text_buffer hledger;
    static text_buffer page;
    assert_granted(fixture_account(fixture, "phase/lab02", 5 * USD));
    assert_granted(fixture_authorize(fixture, "phase/lab02", "one", 2 * USD));
    assert_granted(fixture_create(fixture, "one"));
    assert_granted(fixture_line(fixture, "one", 1234567, "line-1"));
    assert_granted(fixture_attest(fixture, "one"));
    run(fixture, "two", -1);
    assert_ok(budget_ledger_rows(fixture->ledger, 0, 1000, put_jsonl, &jsonl, &fixture->error),
              &fixture->error);
    assert_ok(budget_ledger_rows(fixture->ledger, 0, 1000, put_hledger, &hledger, &fixture->error),
              &fixture->error);
    assert_ok(budget_export_markdown(fixture->ledger, put, &page, &fixture->error),
              &fixture->error);
    contains(&jsonl, "{\"seq\":4,\"at\":\"2026-11-18T11:06:40Z\",\"event\":\"authorized\","
                     "\"label\":\"one\",\"account\":\"phase/lab02\",\"usd\":\"2.00\","
                     "\"usd_micro\":2000000,\"state\":\"reserved\"}\n");
    contains(&jsonl, "\"event\":\"actual\",\"label\":\"one\",\"account\":\"phase/lab02\","
                     "\"usd\":\"1.234567\",\"usd_micro\":1234567,\"line_id\":\"line-1\"");
    contains(&jsonl, "\"event\":\"terminated\",\"label\":\"one\",\"account\":\"phase/lab02\","
                     "\"state\":\"posted\",\"proof\":\"attested\",\"evidence_blake2b256\":\"");
    contains(&hledger, "2026-11-18 one | line-1  ; seq: 6\n"
                       "    expenses:cloud:phase:lab02  1.234567 USD\n"
                       "    liabilities:cloud\n\n");
    contains(&page, "Spent in all: 1.234567 USD.");
    contains(&page, "| phase/lab02 | 5.00 | 1.234567 | 0.00 | 3.765433 |");
    contains(&page, "| one | 2026-11-18 | phase/lab02 | runpod | 2.00 | 1.234567 | posted | `");
    contains(&page, "(attested) |");
    contains(&page, "| two | 2026-11-18 | phase | runpod | 2.00 | unknown | terminated-unbilled |");
}

int main(void)
{
#define LEDGER_TEST(name) cmocka_unit_test_setup_teardown(name, make, take_down)
    const struct CMUnitTest tests[] = {
        LEDGER_TEST(a_bill_that_fits_is_matched_and_posted),
        LEDGER_TEST(what_differs_is_not_posted),
        LEDGER_TEST(rounding_is_half_a_cent_a_line),
        LEDGER_TEST(what_is_missing_is_named),
        LEDGER_TEST(a_bill_above_its_reservation_freezes),
        LEDGER_TEST(two_lines_of_one_id_are_refused),
        LEDGER_TEST(exports_say_what_the_ledger_holds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
