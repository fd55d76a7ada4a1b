/* The export: every row that counts, once, and in order. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "service_fixture.h"

typedef struct exported_lines {
    int count;
    long sequence; /* of the last one */
} exported_lines;

static void follow_line(void *user, const char *line)
{
    exported_lines *lines = user;
    const char *sequence = strstr(line, "\"seq\":");
    assert_non_null(sequence);
    const long found = strtol(sequence + strlen("\"seq\":"), NULL, 10);
    assert_true(found > lines->sequence);
    lines->sequence = found;
    lines->count++;
}

/* More events than an answer holds: each once, in order. */
static void test_export_goes_on_page_by_page(void **state)
{
    enum { EVENTS = BUDGET_PAGE_MAX + 5 };
    service_fixture *fixture = *state;
    base_error why;
    static budget_grant grant;
    exported_lines lines = {0};
    fixture_write_policy(fixture, "\"token_seconds\": 900");
    fixture_start(fixture);
    fixture_account(fixture, "phase35", USD(500));
    budget_client *client = fixture_client(fixture, "request", 0);
    for (int i = 0; i < EVENTS; i++) {
        char label[32];
        (void)snprintf(label, sizeof label, "run-%d", i);
        const budget_claims ask = fixture_ask("phase35", label, USD(0.1));
        assert_verdict(budget_authorize(client, &ask, &grant, &why), BUDGET_GRANTED, &why);
    }
    budget_client_close(client);
    budget_client *admin = fixture_client(fixture, "admin", 0);
    assert_verdict(budget_export(admin, follow_line, &lines, &why), BUDGET_GRANTED, &why);
    budget_client_close(admin);
    assert_int_equal(lines.count, EVENTS);
}

int main(void)
{
#define EXPORT_TEST(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)
    const struct CMUnitTest tests[] = {
        EXPORT_TEST(test_export_goes_on_page_by_page),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
