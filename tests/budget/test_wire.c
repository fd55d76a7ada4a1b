/* budget/wire.h: what a text of a message may hold, in both directions. A terminal must not get
 * control characters from the other side, and no text is cut at a NUL. */
#include "budget/wire.h"

#include <budget.pb-c.h>
#include <stdio.h>
#include <string.h>

#include "budget/audit_report.h"
#include "budget/charge.h"
#include "proto/arena.h"
#include "support.h"

enum { ARENA_BYTES = 64 * 1024 };

static base_status take_request(Ringfence__Budget__Request *request, base_error *error)
{
    uint8_t data[2048];
    proto_arena arena = {0};
    Ringfence__Budget__Request *got = NULL;
    request->version = BUDGET_WIRE_VERSION;
    assert_true(ringfence__budget__request__get_packed_size(request) <= sizeof data);
    const size_t bytes = ringfence__budget__request__pack(request, data);
    assert_ok(proto_arena_init(&arena, ARENA_BYTES, error), error);
    const base_status status = budget_request_unpack(data, bytes, &arena, &got, error);
    proto_arena_fini(&arena);
    return status;
}

static base_status take_response(Ringfence__Budget__Response *response, base_error *error)
{
    uint8_t data[4096];
    proto_arena arena = {0};
    Ringfence__Budget__Response *got = NULL;
    response->version = BUDGET_WIRE_VERSION;
    assert_true(ringfence__budget__response__get_packed_size(response) <= sizeof data);
    const size_t bytes = ringfence__budget__response__pack(response, data);
    assert_ok(proto_arena_init(&arena, ARENA_BYTES, error), error);
    const base_status status = budget_response_unpack(data, bytes, &arena, &got, error);
    proto_arena_fini(&arena);
    return status;
}

static base_status void_label(char *label)
{
    base_error error = {0};
    Ringfence__Budget__Request request = RINGFENCE__BUDGET__REQUEST__INIT;
    Ringfence__Budget__Void body = RINGFENCE__BUDGET__VOID__INIT;
    body.label = label;
    request.request_id = (char *)(uintptr_t) "r-1";
    request.body_case = RINGFENCE__BUDGET__REQUEST__BODY_VOID;
    request.void_ = &body;
    return take_request(&request, &error);
}

static base_status audit_finding(char *finding)
{
    base_error error = {0};
    char *findings[] = {(char *)(uintptr_t) "the first", finding};
    Ringfence__Budget__Response response = RINGFENCE__BUDGET__RESPONSE__INIT;
    Ringfence__Budget__Audited body = RINGFENCE__BUDGET__AUDITED__INIT;
    body.findings = findings;
    body.n_findings = 2;
    response.request_id = (char *)(uintptr_t) "r-1";
    response.verdict = RINGFENCE__BUDGET__VERDICT__VERDICT_DONE;
    response.body_case = RINGFENCE__BUDGET__RESPONSE__BODY_AUDITED;
    response.audited = &body;
    return take_response(&response, &error);
}

static void control_characters_are_refused(void **state)
{
    (void)state;
    assert_int_equal(void_label((char *)(uintptr_t) "a label"), BASE_OK);
    assert_int_equal(audit_finding((char *)(uintptr_t) "row 7: \xe2\x80\xa6"), BASE_OK);
    for (int byte = 1; byte < 256; byte++) {
        const bool control = byte < 0x20 || byte == 0x7f;
        char text[] = {'a', (char)byte, 'b', '\0'};
        assert_int_equal(void_label(text), control ? BASE_ERR_INVALID : BASE_OK);
        assert_int_equal(audit_finding(text), control ? BASE_ERR_INVALID : BASE_OK);
    }
}

/* What one side writes the other reads; counts and texts that do not go together are refused. */
static void an_audit_comes_back_as_it_went(void **state)
{
    static budget_audit_report report;
    static budget_audit_report back;
    Ringfence__Budget__Audited audited;
    char *findings[BUDGET_AUDIT_FINDINGS_KEPT];
    (void)state;
    report = (budget_audit_report){.rows = 7, .bad_sequence = 3, .finding_count = 20};
    for (int i = 0; i < BUDGET_AUDIT_FINDINGS_KEPT; i++) {
        (void)snprintf(report.findings[i], sizeof report.findings[i], "finding %d", i);
    }
    (void)snprintf(report.digest, sizeof report.digest, "%032d", 5);
    budget_audit_report_write(&report, &audited, findings);
    assert_true(budget_audit_report_read(&audited, &back));
    assert_memory_equal(&report, &back, sizeof report);
    audited.n_findings--;
    assert_false(budget_audit_report_read(&audited, &back));
    budget_audit_report_write(&report, &audited, findings);
    audited.good = true;
    assert_false(budget_audit_report_read(&audited, &back));
    report = (budget_audit_report){.good = true, .rows = 7};
    budget_audit_report_write(&report, &audited, findings);
    assert_true(budget_audit_report_read(&audited, &back));
    assert_memory_equal(&report, &back, sizeof report);
}

static void a_charge_comes_back_as_it_went(void **state)
{
    base_error error = {0};
    budget_charge back;
    char long_name[BUDGET_NAME_BYTES + 1];
    Ringfence__Budget__BillLine line;
    const budget_charge charge = {
        .vendor = "vast",
        .line_id = "7",
        .label = "run",
        .instance_id = "pod",
        .usd_micro = -5,
        .at_s = 1,
        .until_s = 2,
    };
    (void)state;
    budget_charge_write(&charge, &line);
    assert_ok(budget_charge_read(&line, &back, &error), &error);
    assert_memory_equal(&charge, &back, sizeof charge);
    memset(long_name, 'x', BUDGET_NAME_BYTES);
    long_name[BUDGET_NAME_BYTES] = '\0';
    line.vendor = long_name;
    assert_status(budget_charge_read(&line, &back, &error), BASE_ERR_INVALID);
    budget_charge_write(&charge, &line);
    line.until = -1;
    assert_status(budget_charge_read(&line, &back, &error), BASE_ERR_INVALID);
}

static void texts_have_a_limit(void **state)
{
    char text[BUDGET_TEXT_BYTES_MAX + 2];
    (void)state;
    memset(text, 'x', sizeof text);
    text[BUDGET_TEXT_BYTES_MAX] = '\0';
    assert_int_equal(void_label(text), BASE_OK);
    assert_int_equal(audit_finding(text), BASE_OK);
    text[BUDGET_TEXT_BYTES_MAX] = 'x';
    text[BUDGET_TEXT_BYTES_MAX + 1] = '\0';
    assert_int_equal(void_label(text), BASE_ERR_INVALID);
    assert_int_equal(audit_finding(text), BASE_ERR_INVALID);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(control_characters_are_refused),
        cmocka_unit_test(texts_have_a_limit),
        cmocka_unit_test(an_audit_comes_back_as_it_went),
        cmocka_unit_test(a_charge_comes_back_as_it_went),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
