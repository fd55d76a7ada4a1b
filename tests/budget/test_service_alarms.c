/* Alarms: what raises them, what the hook hears, and what becomes of a hook that fails or hangs. */
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "budget/time.h"
#include "service_fixture.h"

enum { WAIT_MS = 60 * 1000, FILE_BYTES_MAX = 1 << 20, TOLD_BYTES = 4096 };
enum { QUESTIONS = 200, RUN_S = 1000 };

/* A service whose hook runs a line of shell, "FIFO" in it being a pipe that the test reads. */
typedef struct hooked {
    service_fixture *fixture;
    int fifo;
    char log[BASE_PATH_BYTES];
} hooked;

static void put_policy(const hooked *self, const char *hook, const char *more)
{
    char members[2 * BASE_PATH_BYTES];
    char line[BASE_PATH_BYTES];
    const char *fifo = test_directory_path(&self->fixture->directory, "alarm");
    const char *at = strstr(hook, "FIFO");
    assert_non_null(at);
    (void)snprintf(line, sizeof line, "%.*s'%s'%s", (int)(at - hook), hook, fifo, at + 4);
    (void)snprintf(members, sizeof members, "%s\"hook\": [\"/bin/sh\", \"-c\", \"%s\"]", more,
                   line);
    fixture_write_policy(self->fixture, members);
}

/* setting: of its environment, or NULL. */
static void start(const hooked *self, const char *setting)
{
    const int file = open(self->log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    const int before = dup(STDERR_FILENO);
    assert_true(file >= 0 && before >= 0);
    assert_true(dup2(file, STDERR_FILENO) >= 0);
    const bool started = fixture_start_with(self->fixture, setting, NULL);
    assert_true(dup2(before, STDERR_FILENO) >= 0);
    (void)close(before);
    (void)close(file);
    assert_true(started);
}

static hooked make(service_fixture *fixture, const char *hook, const char *more)
{
    hooked made = {.fixture = fixture};
    const char *fifo = test_directory_path(&fixture->directory, "alarm");
    assert_int_equal(mkfifo(fifo, 0600), 0);
    made.fifo = open(fifo, O_RDWR | O_CLOEXEC | O_NONBLOCK);
    (void)snprintf(made.log, sizeof made.log, "%s",
                   test_directory_path(&fixture->directory, "log"));
    put_policy(&made, hook, more);
    return made;
}

/* The next line that came through the pipe. */
static const char *next_line(const hooked *self)
{
    static char line[TOLD_BYTES];
    size_t filled = 0;
    const int64_t deadline_ns = base_deadline_after_ns(WAIT_MS * BASE_NS_PER_MS);
    while (filled < sizeof line - 1) {
        struct pollfd waited = {.fd = self->fifo, .events = POLLIN};
        if (poll(&waited, 1, base_deadline_poll_ms(deadline_ns, WAIT_MS)) != 1) {
            line[filled] = '\0';
            fail_msg("no alarm, but: %s", line);
        }
        if (read(self->fifo, line + filled, 1) == 1 && line[filled++] == '\n') {
            break;
        }
    }
    line[filled] = '\0';
    return line;
}

static const char *assert_event(const hooked *self, const char *event, const char *about)
{
    char wanted[64];
    (void)snprintf(wanted, sizeof wanted, "\"event\":\"%s\"", event);
    const char *line = next_line(self);
    if (strstr(line, wanted) == NULL || strstr(line, about) == NULL) {
        fail_msg("no %s with %s, but: %s", event, about, line);
    }
    return line;
}

static size_t count_in_log(const hooked *self, const char *part)
{
    base_error why;
    void *text = NULL;
    size_t text_bytes = 0;
    size_t count = 0;
    assert_ok(base_file_read(self->log, FILE_BYTES_MAX, &text, &text_bytes, &why), &why);
    count = (size_t)test_count(text, part);
    free(text);
    return count;
}

static const char says_it[] = "{ cat; echo; } >FIFO";
static const char no_reminder[] = "\"reminder_seconds\": 0, ";

/* The alarm needs no row: neither in the log, nor in status, nor for the hook. What fails is logged
 * once. */
static void test_full_disk_hides_no_deadline(void **state)
{
    service_fixture *fixture = *state;
    char setting[BASE_PATH_BYTES + 64];
    char full[BASE_PATH_BYTES];
    base_error why;
    budget_report report = {0};
    const hooked self = make(fixture, says_it, no_reminder);
    (void)snprintf(setting, sizeof setting, "BUDGET_FULL_FILE=%s/ledger.db-wal", fixture->dir);
    (void)snprintf(full, sizeof full, "%s/ledger.db-wal.full", fixture->dir);
    start(&self, setting);
    fixture_account(fixture, "phase35", USD(50));
    fixture_begin_run(fixture, "run-1", 2);
    assert_ok(base_file_write(full, "", 0, &why), &why);
    (void)assert_event(&self, "deadline-passed", "\"label\":\"run-1\"");

    const budget_status_sinks sinks = {0};
    budget_client *client = fixture_client(fixture, "request", 0);
    for (int i = 0; i < QUESTIONS; i++) { /* each of which wakes the service's loop */
        assert_verdict(budget_status(client, &sinks, &report, &why), BUDGET_GRANTED, &why);
        assert_int_equal(report.alarms_total, 1);
    }
    assert_int_equal(count_in_log(&self, "ALARM: run-1 "), 1);
    assert_int_equal(count_in_log(&self, "error: "), 1);
    assert_int_equal(unlink(full), 0);
    budget_client_close(client);
    (void)close(self.fifo);
}

static void check_instances(void *user, const budget_entry *entry)
{
    assert_int_equal(entry->instances, 2);
    assert_int_equal(entry->instance_ids.count, 2);
    assert_string_equal(entry->instance_ids.texts[0], "i-b");
    assert_string_equal(entry->instance_ids.texts[1], "i-a");
    assert_int_equal(entry->began_at, entry->deadline - RUN_S);
    assert_int_equal(entry->authorized_usd_micro, USD(1));
    *(int *)user += 1;
}

/* For the service, its machine has slept for so many seconds in all. */
static void sleep_for(const hooked *self, const char *seconds)
{
    char file[BASE_PATH_BYTES];
    base_error why;
    (void)snprintf(file, sizeof file, "%s",
                   test_directory_path(&self->fixture->directory, "slept"));
    assert_ok(base_file_write(file, seconds, strlen(seconds), &why), &why);
}

/* A run is reminded of before its deadline, once, and then its alarm comes. Both name all instances,
 * and so do status and what runs. */
static void test_reminder_and_instances(void **state)
{
    service_fixture *fixture = *state;
    base_error why;
    budget_grant grant;
    budget_report report;
    int seen = 0;
    const hooked self = make(fixture, says_it, "");
    char setting[BASE_PATH_BYTES + 64];
    (void)snprintf(setting, sizeof setting, "BUDGET_SLEPT_FILE=%s",
                   test_directory_path(&fixture->directory, "slept"));
    start(&self, setting);
    fixture_account(fixture, "phase35", USD(50));
    budget_client *client = fixture_client(fixture, "request", 0);
    budget_claims ask = fixture_ask("phase35", "two", USD(1));
    ask.max_seconds = RUN_S;
    ask.instances = 2;
    assert_verdict(budget_authorize(client, &ask, &grant, &why), BUDGET_GRANTED, &why);
    assert_verdict(budget_attach(client, "two", "i-b", NULL, NULL, &why), BUDGET_GRANTED, &why);
    assert_verdict(budget_attach(client, "two", "i-a", NULL, NULL, &why), BUDGET_GRANTED, &why);
    const budget_selection selection = {.account = "phase35", .running = true};
    assert_verdict(budget_list(client, &selection, check_instances, &seen, &why), BUDGET_GRANTED,
                   &why);
    assert_int_equal(seen, 1);
    sleep_for(&self, "950"); /* the last tenth has begun */
    const char *line = assert_event(&self, "deadline-soon", "\"instances\":[\"i-b\",\"i-a\"]");
    assert_non_null(strstr(line, "\"at\":\"20"));
    sleep_for(&self, "1001");
    (void)assert_event(&self, "deadline-passed", "\"instances\":[\"i-b\",\"i-a\"]");
    assert_int_equal(count_in_log(&self, "comes to its deadline"), 1);
    assert_int_equal(count_in_log(&self, "instances i-b, i-a"), 2);
    const budget_status_sinks sinks = {.alarm = check_instances, .user = &seen};
    assert_verdict(budget_status(client, &sinks, &report, &why), BUDGET_GRANTED, &why);
    assert_int_equal(seen, 2);
    budget_client *admin = fixture_client(fixture, "admin", 0);
    assert_verdict(budget_terminated(admin, "two", "gone", 4, false, &why), BUDGET_GRANTED, &why);
    assert_verdict(budget_list(client, &selection, check_instances, &seen, &why), BUDGET_GRANTED,
                   &why);
    assert_int_equal(seen, 2); /* it runs no more */
    budget_client_close(admin);
    budget_client_close(client);
    (void)close(self.fifo);
}

/* Without a reminder, the first that is heard of a run is its deadline. */
static void test_reminder_can_be_switched_off(void **state)
{
    service_fixture *fixture = *state;
    const hooked self = make(fixture, says_it, no_reminder);
    start(&self, NULL);
    fixture_account(fixture, "phase35", USD(50));
    fixture_begin_run(fixture, "run-1", 3);
    (void)assert_event(&self, "deadline-passed", "\"label\":\"run-1\"");
    (void)close(self.fifo);
}

/* A freeze, a passed cap and a wrong clock are alarms, each once. */
static void test_accounts_and_clock_are_told(void **state)
{
    service_fixture *fixture = *state;
    base_error why;
    const hooked self = make(fixture, says_it, "");
    start(&self, "BUDGET_WALL_SHIFT_S=0");
    fixture_account(fixture, "phase35", USD(10));
    fixture_begin_run(fixture, "run-1", 3600);
    budget_client *admin = fixture_client(fixture, "admin", 0);
    const budget_actual actual = {.label = "run-1", .usd_micro = USD(400)};
    assert_verdict(budget_record_actual(admin, &actual, &why), BUDGET_GRANTED, &why);
    (void)assert_event(&self, "account-above-cap", "\"posted_usd_micro\":400000000");
    (void)assert_event(&self, "account-frozen", "\"account\":\"phase35\"");
    assert_verdict(budget_account_acknowledge(admin, "phase35", &why), BUDGET_GRANTED, &why);
    budget_client_close(admin);
    assert_int_equal(fixture_stop(fixture), 0);
    assert_int_equal(count_in_log(&self, "ALARM: account phase35 is frozen"), 1);
    start(&self, "BUDGET_WALL_SHIFT_S=7230");
    (void)assert_event(&self, "clock-wrong", "ahead of the ledger's time");
    (void)assert_event(&self, "account-above-cap", "\"frozen\":false");
    assert_int_equal(fixture_stop(fixture), 0);
    assert_int_equal(count_in_log(&self, "ALARM: the wall clock is "), 1);
    (void)close(self.fifo);
}

/* What a bill has that costs money is an alarm for each kind, by each reconcile, whatever a label is. */
static void test_bill_findings_are_told(void **state)
{
    service_fixture *fixture = *state;
    base_error why;
    budget_reconciliation result;
    budget_charge lines[] = {
        {.line_id = "1", .instance_id = "pod-90aa", .usd_micro = USD(0.25)},
        {.line_id = "2", .instance_id = "pod-90aa", .usd_micro = USD(0.10)},
        {.line_id = "3", .instance_id = "pod-77", .usd_micro = USD(0.05)},
        {.line_id = "4", .instance_id = "pod-78", .usd_micro = -USD(0.05)},
        {.line_id = "5", .label = "\"\\", .usd_micro = USD(0.01)},
        {.line_id = "6", .label = "said", .usd_micro = USD(0.50)},
        {.line_id = "7", .label = "less", .usd_micro = USD(0.10)},
        {.line_id = "8", .label = "ended", .usd_micro = USD(0.20)},
        {.line_id = "9", .usd_micro = USD(0.02)},
    };
    const hooked self = make(fixture, says_it, no_reminder);
    start(&self, NULL);
    fixture_account(fixture, "phase35", USD(50));
    fixture_begin_run(fixture, "said", 3600);
    fixture_begin_run(fixture, "less", 3600);
    fixture_begin_run(fixture, "ended", 3600);
    budget_client *admin = fixture_client(fixture, "admin", 0);
    const budget_actual said = {.label = "said", .usd_micro = USD(0.30)};
    const budget_actual less = {.label = "less", .usd_micro = USD(0.30)};
    assert_verdict(budget_record_actual(admin, &said, &why), BUDGET_GRANTED, &why);
    assert_verdict(budget_record_actual(admin, &less, &why), BUDGET_GRANTED, &why);
    assert_verdict(budget_terminated(admin, "ended", "gone", 4, false, &why), BUDGET_GRANTED, &why);
    lines[7].at_s = budget_time_now() + 3 * 3600; /* beyond an hour and five minutes */
    const budget_bill bill = {
        .as_of = 4000000000, .vendor = "runpod", .charges = lines, .count = 9};
    for (int again = 0; again < 2; again++) {
        assert_verdict(budget_reconcile(admin, &bill, NULL, NULL, &result, &why), BUDGET_GRANTED,
                       &why);
        const char *line = assert_event(&self, "bill-finding", "\"finding\":\"missing_in_ledger\"");
        assert_non_null(strstr(line, "\"instances\":[\"pod-90aa\",\"pod-77\"]"));
        assert_non_null(strstr(line, "\"bill_usd_micro\":410000,\"count\":4"));
        assert_non_null(strstr(line, "\"labels\":[]"));
        assert_non_null(strstr(line, "\"vendor\":\"runpod\""));
        if (again == 0) { /* then the bill's sum is posted */
            line = assert_event(&self, "bill-finding", "\"finding\":\"differing\"");
            assert_non_null(strstr(line, "\"labels\":[\"said\"],\"ledger_usd_micro\":300000"));
        }
        line = assert_event(&self, "bill-finding", "\"finding\":\"unknown\"");
        assert_non_null(strstr(line, "\"bill_usd_micro\":20000,\"count\":1"));
        line = assert_event(&self, "bill-finding", "\"finding\":\"after_the_end\"");
        assert_non_null(strstr(line, "\"labels\":[\"ended\"]"));
    }
    const budget_actual all = {.label = "ended"}; /* a person has looked: it is all */
    assert_verdict(budget_terminated(admin, "ended", "gone", 4, false, &why), BUDGET_GRANTED, &why);
    assert_verdict(budget_record_actual(admin, &all, &why), BUDGET_GRANTED, &why);
    assert_verdict(budget_reconcile(admin, &bill, NULL, NULL, &result, &why), BUDGET_GRANTED, &why);
    assert_int_equal(result.after_the_end, 1);
    budget_client_close(admin);
    assert_int_equal(fixture_stop(fixture), 0);
    assert_int_equal(count_in_log(&self, "find out why. The bill is posted"), 1);
    assert_int_equal(count_in_log(&self, "ALARM: a bill of runpod has $0.20 for ended"), 2);
    assert_int_equal(
        count_in_log(&self, "ALARM: a bill of runpod has $0.41 for pod-90aa, pod-77: the ledger"),
        3);
    assert_int_equal(count_in_log(&self, "ALARM: "), 9);
    (void)close(self.fifo);
}

static const budget_charge stray = {
    .line_id = "1", .instance_id = "pod-90aa", .usd_micro = USD(0.25)};

static budget_verdict reconcile_with(const service_fixture *fixture, const budget_charge *line)
{
    base_error why;
    budget_reconciliation result;
    const budget_bill bill = {.as_of = 4000000000, .vendor = "runpod", .charges = line, .count = 1};
    budget_client *admin = fixture_client(fixture, "admin", 0);
    const budget_verdict verdict = budget_reconcile(admin, &bill, NULL, NULL, &result, &why);
    budget_client_close(admin);
    return verdict;
}

/* Asks for status until the hook's failure has this text, or is none. */
static void await_hook_failure(const hooked *self, const char *part)
{
    base_error why;
    budget_report report = {0};
    const budget_status_sinks sinks = {0};
    budget_client *client = fixture_client(self->fixture, "request", 0);
    const int64_t deadline_ns = base_deadline_after_ns(WAIT_MS * BASE_NS_PER_MS);
    bool found = false;
    while (!found && base_now_ns() < deadline_ns) {
        assert_verdict(budget_status(client, &sinks, &report, &why), BUDGET_GRANTED, &why);
        found = part == NULL ? report.hook_failure[0] == '\0'
                             : strstr(report.hook_failure, part) != NULL;
    }
    budget_client_close(client);
    if (!found) {
        fail_msg("the hook's failure is: %s", report.hook_failure);
    }
}

/* The next reconcile would say "matched": the alarm of a bill comes until the hook has ended with 0. */
static void test_bill_alarm_outlives_a_hook_that_fails(void **state)
{
    service_fixture *fixture = *state;
    char file[BASE_PATH_BYTES];
    const hooked self = make(fixture, "{ cat; echo; } >FIFO; exit 3", no_reminder);
    (void)snprintf(file, sizeof file, "%s/alarms.json", fixture->dir);
    start(&self, NULL);
    assert_int_equal(reconcile_with(fixture, &stray), BUDGET_GRANTED);
    (void)assert_event(&self, "bill-finding", "\"instances\":[\"pod-90aa\"]");
    await_hook_failure(&self, "exit code 3");
    assert_int_equal(fixture_stop(fixture), 0);
    assert_int_equal(access(file, F_OK), 0);

    put_policy(&self, says_it, no_reminder);
    start(&self, NULL);
    (void)assert_event(&self, "bill-finding", "\"instances\":[\"pod-90aa\"]");
    const int64_t deadline_ns = base_deadline_after_ns(WAIT_MS * BASE_NS_PER_MS);
    while (access(file, F_OK) == 0 && base_now_ns() < deadline_ns) {
        await_hook_failure(&self, NULL);
    }
    assert_int_equal(fixture_stop(fixture), 0);

    start(&self, NULL);
    await_hook_failure(&self, NULL);
    await_hook_failure(&self, NULL); /* the loop has raised between two answers what it has */
    assert_int_equal(fixture_stop(fixture), 0);
    assert_int_equal(count_in_log(&self, "ALARM: a bill of runpod has $0.25 for pod-90aa"), 2);
    (void)close(self.fifo);
}

/* What is undone was not found. */
static void test_bill_alarm_follows_the_commit(void **state)
{
    service_fixture *fixture = *state;
    char setting[BASE_PATH_BYTES + 64];
    char full[BASE_PATH_BYTES];
    base_error why;
    const hooked self = make(fixture, says_it, no_reminder);
    (void)snprintf(setting, sizeof setting, "BUDGET_FULL_FILE=%s/ledger.db-wal", fixture->dir);
    (void)snprintf(full, sizeof full, "%s/ledger.db-wal.full", fixture->dir);
    start(&self, setting);
    fixture_account(fixture, "phase35", USD(50));
    fixture_begin_run(fixture, "said", 3600);
    budget_client *admin = fixture_client(fixture, "admin", 0);
    const budget_actual said = {.label = "said", .usd_micro = USD(0.30)};
    assert_verdict(budget_record_actual(admin, &said, &why), BUDGET_GRANTED, &why);
    budget_client_close(admin);
    const budget_charge more = {.line_id = "6", .label = "said", .usd_micro = USD(0.50)};
    assert_ok(base_file_write(full, "", 0, &why), &why);
    assert_int_not_equal(reconcile_with(fixture, &more), BUDGET_GRANTED);
    assert_int_equal(count_in_log(&self, "ALARM: "), 0);
    assert_int_equal(unlink(full), 0);
    assert_int_equal(reconcile_with(fixture, &more), BUDGET_GRANTED);
    (void)assert_event(&self, "bill-finding", "\"finding\":\"differing\"");
    assert_int_equal(fixture_stop(fixture), 0);
    assert_int_equal(count_in_log(&self, "ALARM: "), 1);
    (void)close(self.fifo);
}

/* A process whose number comes through the pipe: readable when it has ended. */
static int open_process(const hooked *self)
{
    const int fd = pidfd_open((pid_t)strtol(next_line(self), NULL, 10), 0);
    assert_true(fd >= 0);
    return fd;
}

static void assert_ends(int process_fd)
{
    struct pollfd waited = {.fd = process_fd, .events = POLLIN};
    assert_int_equal(poll(&waited, 1, WAIT_MS), 1);
    (void)close(process_fd);
}

/* A hook has 60 s. Then it is ended with all that it has started, in a session of its own too. The log
 * and status say so. It has the signals that a program expects. */
static void test_hook_that_hangs_is_ended(void **state)
{
    service_fixture *fixture = *state;
    base_error why;
    char setting[BASE_PATH_BYTES + 64];
    char later[BASE_PATH_BYTES];
    const hooked self = make(fixture,
                             "exec >FIFO; grep SigIgn /proc/self/status; sleep 1000 & echo $!; "
                             "setsid sleep 1000 & echo $!; echo $$; wait",
                             no_reminder);
    (void)snprintf(later, sizeof later, "%s", test_directory_path(&fixture->directory, "later"));
    (void)snprintf(setting, sizeof setting, "BUDGET_LATER_FILE=%s", later);
    start(&self, setting);
    fixture_account(fixture, "phase35", USD(50));
    fixture_begin_run(fixture, "run-1", 1);
    assert_int_equal(strtoull(strchr(next_line(&self), ':') + 1, NULL, 16) >> (SIGPIPE - 1) & 1, 0);
    const int left = open_process(&self);
    const int elsewhere = open_process(&self);
    const int hook = open_process(&self);
    assert_ok(base_file_write(later, "", 0, &why), &why);
    assert_ends(hook);
    assert_ends(left);
    assert_ends(elsewhere);
    assert_int_equal(unlink(later), 0);
    await_hook_failure(&self, "took longer than 60 s and was ended");
    assert_int_equal(count_in_log(&self, "took longer than 60 s and was ended, at the alarm {"), 1);
    (void)close(self.fifo);
}

/* Neither a hook nor what it has started outlives the service. What waited is named. */
static void test_nothing_outlives_the_service(void **state)
{
    service_fixture *fixture = *state;
    const hooked self = make(
        fixture, "exec >FIFO; trap '' TERM; setsid sleep 1000 & echo $!; echo $$; wait; sleep 1000",
        no_reminder);
    start(&self, NULL);
    fixture_account(fixture, "phase35", USD(50));
    fixture_begin_run(fixture, "run-1", 1);
    const int left = open_process(&self);
    const int hook = open_process(&self);
    assert_int_equal(reconcile_with(fixture, &stray), BUDGET_GRANTED);
    assert_int_equal(fixture_stop(fixture), 0);
    assert_ends(hook);
    assert_ends(left);
    assert_int_equal(count_in_log(&self, "was ended, because the service ends"), 1);
    assert_int_equal(count_in_log(&self, "took longer"), 0);
    assert_int_equal(count_in_log(&self, "was not notified: unless its cause has ended"), 1);
    (void)close(self.fifo);
}

int main(void)
{
#define SERVICE_TEST(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)
    const struct CMUnitTest tests[] = {
        SERVICE_TEST(test_full_disk_hides_no_deadline),
        SERVICE_TEST(test_reminder_and_instances),
        SERVICE_TEST(test_reminder_can_be_switched_off),
        SERVICE_TEST(test_accounts_and_clock_are_told),
        SERVICE_TEST(test_bill_findings_are_told),
        SERVICE_TEST(test_bill_alarm_outlives_a_hook_that_fails),
        SERVICE_TEST(test_bill_alarm_follows_the_commit),
        SERVICE_TEST(test_hook_that_hangs_is_ended),
        SERVICE_TEST(test_nothing_outlives_the_service),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
