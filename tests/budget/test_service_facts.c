/* What comes after a grant: deadlines with their alarm and hook, bills, audits. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "service_fixture.h"

enum { WAIT_MS = 20 * 1000, FILE_BYTES_MAX = 1 << 20 };

static void note_alarm(void *user, const budget_entry *entry)
{
    (void)snprintf(user, BUDGET_LABEL_BYTES, "%s", entry->label);
    assert_string_equal(entry->state, "expired-unconfirmed");
}

/* Up to the next '}' of what comes through fd. */
static void read_told(int fd, char *told, size_t told_bytes)
{
    size_t filled = 0;
    const int64_t deadline_ns = base_deadline_after_ns(WAIT_MS * BASE_NS_PER_MS);
    told[0] = '\0';
    while (strchr(told, '}') == NULL) {
        struct pollfd waited = {.fd = fd, .events = POLLIN};
        if (poll(&waited, 1, base_deadline_poll_ms(deadline_ns, WAIT_MS)) != 1) {
            fail_msg("no alarm, but: %s", told);
        }
        const ssize_t got = read(fd, told + filled, told_bytes - 1 - filled);
        assert_true(got >= 0);
        filled += (size_t)got;
        told[filled] = '\0';
    }
}

/* The hook writes what it is told into a FIFO: opening it waits for the alarm. */
static void test_deadline_alarm_and_hook(void **state)
{
    service_fixture *fixture = *state;
    base_error why;
    char extra[2 * BASE_PATH_BYTES];
    char told[4096] = "";
    char label[BUDGET_LABEL_BYTES] = "";
    const char *fifo = test_directory_path(&fixture->directory, "alarm");
    assert_int_equal(mkfifo(fifo, 0600), 0);
    (void)snprintf(extra, sizeof extra,
                   "\"reminder_seconds\": 0, \"hook\": [\"/bin/sh\", \"-c\", \"cat >'%s'\"]", fifo);
    fixture_write_policy(fixture, extra);
    const int fd = open(fifo, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    fixture_start(fixture);
    fixture_account(fixture, "phase35", USD(5));
    fixture_begin_run(fixture, "run-1", 1);
    read_told(fd, told, sizeof told);
    (void)close(fd);
    assert_non_null(strstr(told, "\"event\":\"deadline-passed\""));
    assert_non_null(strstr(told, "\"label\":\"run-1\""));

    budget_report report;
    const budget_status_sinks sinks = {.alarm = note_alarm, .user = label};
    budget_client *client = fixture_client(fixture, "request", 0);
    assert_verdict(budget_status(client, &sinks, &report, &why), BUDGET_GRANTED, &why);
    assert_int_equal(report.alarms_total, 1);
    assert_string_equal(label, "run-1");
    budget_chain chain;
    assert_verdict(budget_remaining(client, "phase35", &chain, &why), BUDGET_GRANTED, &why);
    assert_int_equal(chain.accounts[0].reserved_usd_micro, USD(1)); /* nothing came back */
    budget_client_close(client);
}

/* Starts the service with its standard error in a file, and a monotonic clock that is an hour ahead
 * while the file "later" is there. */
static void start_logged(service_fixture *fixture, const char *log)
{
    char setting[BASE_PATH_BYTES + 64];
    (void)snprintf(setting, sizeof setting, "BUDGET_LATER_FILE=%s",
                   test_directory_path(&fixture->directory, "later"));
    const int file = open(log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    const int before = dup(STDERR_FILENO);
    assert_true(file >= 0 && before >= 0);
    assert_true(dup2(file, STDERR_FILENO) >= 0);
    const bool started = fixture_start_with(fixture, setting, NULL);
    assert_true(dup2(before, STDERR_FILENO) >= 0);
    (void)close(before);
    (void)close(file);
    assert_true(started);
}

static void assert_told(int fd, const char *label)
{
    char told[4096];
    char wanted[BUDGET_LABEL_BYTES + 16];
    (void)snprintf(wanted, sizeof wanted, "\"label\":\"%s\"", label);
    read_told(fd, told, sizeof told);
    assert_non_null(strstr(told, "\"event\":\"deadline-passed\""));
    if (strstr(told, wanted) == NULL) {
        fail_msg("%s is not in %s", wanted, told);
    }
}

/* The alarm comes again, later and after a start, until the end is proven. The log says that the hook
 * has failed. */
static void test_deadline_alarm_is_repeated(void **state)
{
    service_fixture *fixture = *state;
    base_error why;
    char extra[2 * BASE_PATH_BYTES];
    char log[BASE_PATH_BYTES];
    char later[BASE_PATH_BYTES];
    void *text = NULL;
    size_t text_bytes = 0;
    const char *fifo = test_directory_path(&fixture->directory, "alarm");
    assert_int_equal(mkfifo(fifo, 0600), 0);
    (void)snprintf(
        extra, sizeof extra,
        "\"reminder_seconds\": 0, \"hook\": [\"/bin/sh\", \"-c\", \"cat >'%s'; exit 3\"]", fifo);
    fixture_write_policy(fixture, extra);
    const int fd = open(fifo, O_RDWR | O_CLOEXEC | O_NONBLOCK);
    (void)snprintf(log, sizeof log, "%s", test_directory_path(&fixture->directory, "log"));
    (void)snprintf(later, sizeof later, "%s", test_directory_path(&fixture->directory, "later"));
    start_logged(fixture, log);
    fixture_account(fixture, "phase35", USD(50));
    fixture_begin_run(fixture, "run-1", 1);
    assert_told(fd, "run-1");
    assert_ok(base_file_write(later, "", 0, &why), &why);
    assert_told(fd, "run-1");
    assert_int_equal(unlink(later), 0);
    assert_int_equal(fixture_stop(fixture), 0);
    start_logged(fixture, log);
    assert_told(fd, "run-1");

    budget_client *admin = fixture_client(fixture, "admin", 0);
    assert_verdict(budget_terminated(admin, "run-1", "gone", 4, false, &why), BUDGET_GRANTED, &why);
    budget_client_close(admin);
    fixture_begin_run(fixture, "run-2", 1);
    assert_told(fd, "run-2");
    assert_int_equal(fixture_stop(fixture), 0);
    start_logged(fixture, log);
    assert_told(fd, "run-2"); /* and run-1, whose deadline was earlier, is silent */
    assert_int_equal(fixture_stop(fixture), 0);
    (void)close(fd);
    assert_ok(base_file_read(log, FILE_BYTES_MAX, &text, &text_bytes, &why), &why);
    assert_non_null(strstr(text, "the policy's hook ended with exit code 3, at the alarm {"));
    free(text);
}

/* A hook that does not end does not hold up the service's end, and ends with it. */
static void test_hook_that_hangs_is_left(void **state)
{
    service_fixture *fixture = *state;
    char extra[2 * BASE_PATH_BYTES];
    char line[64] = "";
    const char *fifo = test_directory_path(&fixture->directory, "alarm");
    assert_int_equal(mkfifo(fifo, 0600), 0);
    (void)snprintf(extra, sizeof extra,
                   "\"reminder_seconds\": 0, \"hook\": [\"/bin/sh\", \"-c\", \"echo $$ >'%s'; exec "
                   "sleep 600\"]",
                   fifo);
    fixture_write_policy(fixture, extra);
    const int fd = open(fifo, O_RDWR | O_CLOEXEC);
    fixture_start(fixture);
    fixture_account(fixture, "phase35", USD(50));
    fixture_begin_run(fixture, "run-1", 1);
    assert_true(read(fd, line, sizeof line - 1) > 0);
    const pid_t hook = (pid_t)strtol(line, NULL, 10);
    const int64_t before_ns = base_now_ns();
    assert_int_equal(fixture_stop(fixture), 0);
    assert_true(base_now_ns() - before_ns < 60 * BASE_NS_PER_S);
    assert_int_equal(kill(hook, 0), -1); /* it was ended, else it would sleep on */
    assert_int_equal(errno, ESRCH);
    (void)close(fd);
}

/* What `budget-service status` prints. */
static void read_status(const service_fixture *fixture, char *text, size_t text_bytes)
{
    char command[2 * BASE_PATH_BYTES];
    (void)snprintf(command, sizeof command, "%s status --dir %s --key admin", BUDGET_SERVICE_PATH,
                   fixture->dir);
    FILE *output = popen(command, "r"); // NOLINT(cert-env33-c)
    assert_non_null(output);
    const size_t got = fread(text, 1, text_bytes - 1, output);
    text[got] = '\0';
    (void)pclose(output);
}

/* A wall clock that was set says so, and says once what to do. */
static void test_clock_alarm(void **state)
{
    service_fixture *fixture = *state;
    base_error why;
    budget_report report;
    char printed[4096];
    const budget_status_sinks sinks = {0};
    fixture_start(fixture);
    budget_client *client = fixture_client(fixture, "admin", 0);
    assert_verdict(budget_status(client, &sinks, &report, &why), BUDGET_GRANTED, &why);
    assert_string_equal(report.clock_alarm, "");
    budget_client_close(client);
    assert_int_equal(fixture_stop(fixture), 0);
    assert_true(fixture_start_with(fixture, "BUDGET_WALL_SHIFT_S=7230", NULL));
    client = fixture_client(fixture, "admin", 0);
    assert_verdict(budget_status(client, &sinks, &report, &why), BUDGET_GRANTED, &why);
    assert_non_null(strstr(report.clock_alarm, " s ahead of the ledger's time; if it is right, "));
    assert_int_equal(test_count(report.clock_alarm, "clock repair"), 1);
    assert_int_equal(test_count(report.clock_alarm, "admin"), 1);
    read_status(fixture, printed, sizeof printed);
    assert_int_equal(test_count(printed, "ALARM the wall clock is "), 1);
    assert_int_equal(test_count(printed, "clock repair"), 1);
    assert_verdict(budget_repair_clock(client, &why), BUDGET_GRANTED, &why);
    assert_verdict(budget_status(client, &sinks, &report, &why), BUDGET_GRANTED, &why);
    assert_string_equal(report.clock_alarm, "");
    budget_client_close(client);
    assert_int_equal(fixture_stop(fixture), 0);
    assert_true(fixture_start_with(fixture, "BUDGET_WALL_SHIFT_S=-7230", NULL));
    client = fixture_client(fixture, "admin", 0);
    assert_verdict(budget_status(client, &sinks, &report, &why), BUDGET_GRANTED, &why);
    assert_non_null(strstr(report.clock_alarm, " s behind the ledger's time; if it is right, "));
    budget_client_close(client);
}

/* Each account that comes to 80 % of its cap is told once:
 * the second line is the other account's. */
static void test_hook_hears_of_a_cap(void **state)
{
    service_fixture *fixture = *state;
    base_error why;
    budget_grant grant;
    char extra[2 * BASE_PATH_BYTES];
    char told[4096];
    const char *fifo = test_directory_path(&fixture->directory, "alarm");
    assert_int_equal(mkfifo(fifo, 0600), 0);
    (void)snprintf(extra, sizeof extra,
                   "\"reminder_seconds\": 0, \"hook\": [\"/bin/sh\", \"-c\", \"cat >'%s'\"]", fifo);
    fixture_write_policy(fixture, extra);
    const int fd = open(fifo, O_RDWR | O_CLOEXEC | O_NONBLOCK);
    fixture_start(fixture);
    fixture_account(fixture, "phase", USD(10));
    fixture_account(fixture, "phase/lab", USD(5));
    budget_client *client = fixture_client(fixture, "request", 0);
    const double amounts[] = {3.9, 0.1, 0.5};
    for (size_t i = 0; i < 3; i++) { /* 78 %, 80 %, 90 % of the lab's */
        const char *const labels[] = {"a", "b", "c"};
        const budget_claims ask = fixture_ask("phase/lab", labels[i], USD(amounts[i]));
        assert_verdict(budget_authorize(client, &ask, &grant, &why), BUDGET_GRANTED, &why);
        if (i == 1) {
            read_told(fd, told, sizeof told);
            assert_non_null(strstr(told, "\"event\":\"account-used\""));
            assert_non_null(strstr(told, "\"account\":\"phase/lab\""));
            assert_non_null(strstr(told, "\"reserved_usd_micro\":4000000"));
        }
    }
    const budget_claims ask = fixture_ask("phase", "d", USD(3.5));
    assert_verdict(budget_authorize(client, &ask, &grant, &why), BUDGET_GRANTED, &why);
    read_told(fd, told, sizeof told);
    assert_non_null(strstr(told, "\"account\":\"phase\""));
    (void)close(fd);
    budget_client_close(client);
}

static void count_difference(void *user, const budget_difference *difference)
{
    assert_string_equal(difference->label, "run-2");
    assert_int_equal(difference->bill_usd_micro, USD(0.7));
    *(int *)user += 1;
}

static void test_bill_and_audit(void **state)
{
    service_fixture *fixture = *state;
    base_error why;
    int differences = 0;
    budget_reconciliation result;
    budget_audit_report audit = {0};
    static budget_charge lines[2] = {
        {.line_id = "l-1", .label = "run-1", .usd_micro = 500000},
        {.line_id = "l-2", .label = "run-2", .usd_micro = 700000},
    };
    fixture_start(fixture);
    fixture_account(fixture, "phase35", USD(500));
    fixture_begin_run(fixture, "run-1", 3600);
    fixture_begin_run(fixture, "run-2", 3600);
    budget_client *admin = fixture_client(fixture, "admin", 0);
    const budget_actual by_hand = {.label = "run-2", .usd_micro = USD(0.6)};
    assert_verdict(budget_record_actual(admin, &by_hand, &why), BUDGET_GRANTED, &why);
    assert_verdict(budget_terminated(admin, "run-1", "gone", 4, false, &why), BUDGET_GRANTED, &why);
    assert_verdict(budget_terminated(admin, "run-2", "gone", 4, false, &why), BUDGET_GRANTED, &why);
    const budget_bill bill = {.as_of = 4000000000, .charges = lines, .count = 2};
    assert_verdict(budget_reconcile(admin, &bill, count_difference, &differences, &result, &why),
                   BUDGET_GRANTED, &why);
    assert_int_equal(result.matched, 1);
    assert_int_equal(result.differing, 1);
    assert_int_equal(differences, 1);
    const budget_charge strange[] = {
        {.line_id = "l-3", .label = "run-1", .usd_micro = INT64_MIN},
        {.line_id = "l-3", .label = "run-1", .usd_micro = INT64_MAX},
        {.line_id = "l-3", .label = "run-1", .usd_micro = 1, .until_s = INT64_MAX},
        {.line_id = "l-3", .label = "run-1", .usd_micro = 1, .at_s = INT64_MIN},
    };
    for (size_t i = 0; i < sizeof strange / sizeof strange[0]; i++) {
        const budget_bill one = {.as_of = 4000000000, .charges = &strange[i], .count = 1};
        assert_verdict(budget_reconcile(admin, &one, count_difference, &differences, &result, &why),
                       BUDGET_REFUSED, &why);
    }
    assert_verdict(budget_audit(admin, &audit, &why), BUDGET_GRANTED, &why);
    assert_true(audit.good);
    assert_true(audit.rows > 8);
    budget_client_close(admin);
}

/* A bill is taken as a whole: a line that cannot be recorded keeps out those before it. */
static void test_a_refused_bill_posts_nothing(void **state)
{
    service_fixture *fixture = *state;
    base_error why;
    int64_t spent = -1;
    budget_reconciliation result;
    static budget_charge lines[2] = {{.line_id = "l-1", .label = "run-1", .usd_micro = 500000},
                                     {.line_id = "l-2", .label = "run-1", .usd_micro = 500000}};
    static const budget_charge bad[] = {{.line_id = "quote\""},
                                        {.line_id = ""},
                                        {.line_id = "l-2", .instance_id = "back\\slash"},
                                        {.line_id = "l-1"}};
    fixture_start(fixture);
    fixture_account(fixture, "phase35", USD(500));
    fixture_begin_run(fixture, "run-1", 3600);
    budget_client *admin = fixture_client(fixture, "admin", 0);
    const budget_bill bill = {.as_of = 4000000000, .charges = lines, .count = 2};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        memcpy(lines[1].line_id, bad[i].line_id, sizeof lines[1].line_id);
        memcpy(lines[1].instance_id, bad[i].instance_id, sizeof lines[1].instance_id);
        assert_verdict(budget_reconcile(admin, &bill, NULL, NULL, &result, &why), BUDGET_REFUSED,
                       &why);
        assert_verdict(budget_total_spent(admin, NULL, &spent, &why), BUDGET_GRANTED, &why);
        assert_int_equal(spent, 0);
    }
    budget_client_close(admin);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_deadline_alarm_and_hook, fixture_setup,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(test_deadline_alarm_is_repeated, fixture_setup,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(test_hook_that_hangs_is_left, fixture_setup,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(test_clock_alarm, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_hook_hears_of_a_cap, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_bill_and_audit, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_a_refused_bill_posts_nothing, fixture_setup,
                                        fixture_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
