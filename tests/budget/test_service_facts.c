/* What comes after a grant: deadlines with their alarm and hook, spend.jsonl, bills, audits. */
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "budget/wire.h"
#include "proto/key.h"
#include "service_fixture.h"

enum { WAIT_MS = 20 * 1000, FILE_BYTES_MAX = 1 << 20 };

static void write_policy(const service_fixture *fixture, const char *extra)
{
    char text[2 * BASE_PATH_BYTES];
    base_error error;
    (void)snprintf(text, sizeof text, "{\"version\": 1, %s}", extra);
    assert_ok(base_file_write(test_directory_path(&fixture->directory, "policy.json"), text,
                              strlen(text), &error),
              &error);
}

static budget_redeem_options redeemer(const service_fixture *fixture, budget_job_key *key)
{
    proto_keypair pair;
    proto_keypair_make(&pair);
    memcpy(key->public_key, pair.public_key, sizeof key->public_key);
    memcpy(key->secret_key, pair.secret_key, sizeof key->secret_key);
    return (budget_redeem_options){.dir = fixture->dir, .job_key = key};
}

/* Authorizes label for so many seconds, and redeems its rank 0. */
static void begin_run(const service_fixture *fixture, const char *label, int64_t seconds)
{
    base_error why;
    budget_grant grant;
    budget_job_key job;
    static budget_redemption redemption;
    const budget_redeem_options mine = redeemer(fixture, &job);
    budget_client *client = fixture_client(fixture, "request", 0);
    budget_claims ask = fixture_ask("phase35", label, USD(1));
    ask.max_seconds = seconds;
    assert_verdict(budget_authorize(client, &ask, &grant, &why), BUDGET_GRANTED, &why);
    assert_verdict(
        budget_redeem(&mine, grant.token, &(budget_redeem_ranks){0, 1, 1}, &redemption, &why),
        BUDGET_GRANTED, &why);
    budget_client_close(client);
}

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
    (void)snprintf(extra, sizeof extra, "\"hook\": [\"/bin/sh\", \"-c\", \"cat >'%s'\"]", fifo);
    write_policy(fixture, extra);
    const int fd = open(fifo, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    fixture_start(fixture);
    fixture_account(fixture, "phase35", USD(5));
    begin_run(fixture, "run-1", 1);
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
    (void)snprintf(extra, sizeof extra, "\"hook\": [\"/bin/sh\", \"-c\", \"cat >'%s'; exit 3\"]",
                   fifo);
    write_policy(fixture, extra);
    const int fd = open(fifo, O_RDWR | O_CLOEXEC | O_NONBLOCK);
    (void)snprintf(log, sizeof log, "%s", test_directory_path(&fixture->directory, "log"));
    (void)snprintf(later, sizeof later, "%s", test_directory_path(&fixture->directory, "later"));
    start_logged(fixture, log);
    fixture_account(fixture, "phase35", USD(50));
    begin_run(fixture, "run-1", 1);
    assert_told(fd, "run-1");
    assert_ok(base_file_write(later, "", 0, &why), &why);
    assert_told(fd, "run-1");
    assert_int_equal(unlink(later), 0);
    assert_int_equal(fixture_stop(fixture), 0);
    start_logged(fixture, log);
    assert_told(fd, "run-1");

    budget_client *admin = fixture_client(fixture, "admin", 0);
    assert_verdict(budget_terminated(admin, "run-1", "gone", 4, &why), BUDGET_GRANTED, &why);
    budget_client_close(admin);
    begin_run(fixture, "run-2", 1);
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
                   "\"hook\": [\"/bin/sh\", \"-c\", \"echo $$ >'%s'; exec sleep 600\"]", fifo);
    write_policy(fixture, extra);
    const int fd = open(fifo, O_RDWR | O_CLOEXEC);
    fixture_start(fixture);
    fixture_account(fixture, "phase35", USD(50));
    begin_run(fixture, "run-1", 1);
    assert_true(read(fd, line, sizeof line - 1) > 0);
    const pid_t hook = (pid_t)strtol(line, NULL, 10);
    const int64_t before_ns = base_now_ns();
    assert_int_equal(fixture_stop(fixture), 0);
    assert_true(base_now_ns() - before_ns < 60 * BASE_NS_PER_S);
    for (int i = 0; i < 100 && kill(hook, 0) == 0; i++) {
        (void)usleep(100000);
    }
    assert_int_not_equal(kill(hook, 0), 0);
    (void)close(fd);
}

static size_t count_of(const char *text, const char *part)
{
    size_t count = 0;
    for (const char *at = strstr(text, part); at != NULL; at = strstr(at + 1, part)) {
        count++;
    }
    return count;
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
    assert_int_equal(count_of(report.clock_alarm, "clock repair"), 1);
    assert_int_equal(count_of(report.clock_alarm, "admin"), 1);
    read_status(fixture, printed, sizeof printed);
    assert_int_equal(count_of(printed, "ALARM the wall clock is "), 1);
    assert_int_equal(count_of(printed, "clock repair"), 1);
    assert_verdict(budget_repair_clock(client, &why), BUDGET_GRANTED, &why);
    assert_verdict(budget_status(client, &sinks, &report, &why), BUDGET_GRANTED, &why);
    assert_string_equal(report.clock_alarm, "");
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
    (void)snprintf(extra, sizeof extra, "\"hook\": [\"/bin/sh\", \"-c\", \"cat >'%s'\"]", fifo);
    write_policy(fixture, extra);
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

static void count_line(void *user, const char *line)
{
    assert_int_equal(line[0], '{');
    *(int *)user += 1;
}

static void test_spend_and_export(void **state)
{
    enum { RUNS = 5 };
    service_fixture *fixture = *state;
    base_error why;
    char extra[BASE_PATH_BYTES + 64];
    int lines = 0;
    int exported = 0;
    void *data = NULL;
    size_t data_bytes = 0;
    (void)snprintf(extra, sizeof extra, "\"spend\": \"%s/deep/spend.jsonl\"", fixture->dir);
    write_policy(fixture, extra);
    fixture_start(fixture);
    fixture_account(fixture, "phase35", USD(500));
    for (int i = 0; i < RUNS; i++) {
        char label[32];
        (void)snprintf(label, sizeof label, "run-%d", i);
        begin_run(fixture, label, 3600);
        if (i == 2) { /* what is there is not written again */
            assert_int_equal(fixture_stop(fixture), 0);
            fixture_start(fixture);
        }
    }
    budget_client *admin = fixture_client(fixture, "admin", 0);
    assert_verdict(budget_export(admin, count_line, &exported, &why), BUDGET_GRANTED, &why);
    budget_client_close(admin);
    assert_int_equal(fixture_stop(fixture), 0);
    assert_ok(base_file_read(test_directory_path(&fixture->directory, "deep/spend.jsonl"),
                             FILE_BYTES_MAX, &data, &data_bytes, &why),
              &why);
    for (size_t i = 0; i < data_bytes; i++) {
        lines += ((const char *)data)[i] == '\n' ? 1 : 0;
    }
    free(data);
    assert_true(exported >= RUNS);
    assert_int_equal(lines, exported);
}

static char *read_spend(const service_fixture *fixture, size_t *bytes)
{
    base_error why;
    void *data = NULL;
    assert_ok(base_file_read(test_directory_path(&fixture->directory, "spend.jsonl"),
                             FILE_BYTES_MAX, &data, bytes, &why),
              &why);
    return data;
}

/* Wherever a crash cuts the file off, it is the same again after the next start. */
static void test_a_cut_spend_line_is_written_anew(void **state)
{
    service_fixture *fixture = *state;
    base_error why;
    char extra[BASE_PATH_BYTES + 64];
    size_t bytes = 0;
    (void)snprintf(extra, sizeof extra, "\"spend\": \"%s/spend.jsonl\"", fixture->dir);
    write_policy(fixture, extra);
    fixture_start(fixture);
    fixture_account(fixture, "phase35", USD(500));
    begin_run(fixture, "run-1", 3600);
    begin_run(fixture, "run-2", 3600);
    assert_int_equal(fixture_stop(fixture), 0);
    char *whole = read_spend(fixture, &bytes);
    const char *last = (const char *)memrchr(whole, '\n', bytes - 1) + 1;
    const size_t cuts[] = {bytes - 1, bytes - 2, (size_t)(last - whole) + 1, (size_t)(last - whole),
                           3,         0};
    for (size_t i = 0; i < sizeof cuts / sizeof cuts[0]; i++) {
        size_t again_bytes = 0;
        assert_ok(base_file_write(test_directory_path(&fixture->directory, "spend.jsonl"), whole,
                                  cuts[i], &why),
                  &why);
        fixture_start(fixture);
        assert_int_equal(fixture_stop(fixture), 0);
        char *again = read_spend(fixture, &again_bytes);
        if (again_bytes != bytes || memcmp(again, whole, bytes) != 0) {
            fail_msg("cut after %zu of %zu bytes, then: %s", cuts[i], bytes, again);
        }
        free(again);
    }
    free(whole);
}

/* Another ledger's rows, or a file of another kind, is neither added to nor cut. */
static void test_a_file_of_others_is_left(void **state)
{
    service_fixture *fixture = *state;
    base_error why;
    char extra[BASE_PATH_BYTES + 64];
    size_t bytes = 0;
    (void)snprintf(extra, sizeof extra, "\"spend\": \"%s/spend.jsonl\"", fixture->dir);
    write_policy(fixture, extra);
    fixture_start(fixture);
    fixture_account(fixture, "phase35", USD(500));
    begin_run(fixture, "run-1", 3600);
    assert_int_equal(fixture_stop(fixture), 0);
    char *own = read_spend(fixture, &bytes);
    char *later = strndup(own, bytes);
    char *other = strndup(own, bytes);
    assert_non_null(later);
    assert_non_null(other);
    *strstr(later, "\"seq\":") = '\0'; /* the row, of a number that this ledger has not reached */
    char *beyond = NULL;
    assert_true(asprintf(&beyond, "%s\"seq\":9%s", later, own + strlen("{\"seq\":")) > 0);
    memcpy(strstr(other, "run-1"), "run-9", 5); /* the row of that number, of another run */
    const char *const files[] = {"notes", "notes\nwithout an end", "\n", beyond, other};
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        size_t left_bytes = 0;
        assert_ok(base_file_write(test_directory_path(&fixture->directory, "spend.jsonl"), files[i],
                                  strlen(files[i]), &why),
                  &why);
        assert_false(fixture_start_with(fixture, NULL, NULL));
        assert_non_null(strstr(fixture->failure, "move it away"));
        char *left = read_spend(fixture, &left_bytes);
        assert_int_equal(left_bytes, strlen(files[i]));
        assert_memory_equal(left, files[i], left_bytes);
        free(left);
    }
    assert_int_equal(unlink(test_directory_path(&fixture->directory, "spend.jsonl")), 0);
    fixture_start(fixture);
    assert_int_equal(fixture_stop(fixture), 0);
    size_t again_bytes = 0;
    char *again = read_spend(fixture, &again_bytes);
    assert_int_equal(again_bytes, bytes);
    assert_memory_equal(again, own, bytes);
    free(again);
    free(beyond);
    free(other);
    free(later);
    free(own);
}

/* While the disk is full, a line is cut off. When there is room again, it is written anew, with what
 * has come since. */
static void test_spend_goes_on_after_a_full_disk(void **state)
{
    service_fixture *fixture = *state;
    base_error why;
    char extra[BASE_PATH_BYTES + 64];
    char setting[BASE_PATH_BYTES + 64];
    char full[BASE_PATH_BYTES];
    size_t bytes = 0;
    int lines = 0;
    int exported = 0;
    (void)snprintf(extra, sizeof extra, "\"spend\": \"%s/spend.jsonl\"", fixture->dir);
    (void)snprintf(setting, sizeof setting, "BUDGET_FULL_FILE=%s/spend.jsonl", fixture->dir);
    (void)snprintf(full, sizeof full, "%s",
                   test_directory_path(&fixture->directory, "spend.jsonl.full"));
    write_policy(fixture, extra);
    assert_true(fixture_start_with(fixture, setting, NULL));
    fixture_account(fixture, "phase35", USD(500));
    begin_run(fixture, "run-1", 3600);
    assert_ok(base_file_write(full, "", 0, &why), &why);
    begin_run(fixture, "run-2", 3600);
    bool is_cut = false; /* it is dropped and tried again now and then */
    for (int i = 0; i < 500 && !is_cut; i++) {
        char *cut = read_spend(fixture, &bytes);
        is_cut = bytes > 0 && cut[bytes - 1] != '\n';
        free(cut);
        (void)usleep(is_cut ? 0 : 10000);
    }
    assert_true(is_cut);
    assert_int_equal(unlink(full), 0);
    begin_run(fixture, "run-3", 3600);
    budget_client *admin = fixture_client(fixture, "admin", 0);
    assert_verdict(budget_export(admin, count_line, &exported, &why), BUDGET_GRANTED, &why);
    budget_client_close(admin);
    assert_int_equal(fixture_stop(fixture), 0);
    char *whole = read_spend(fixture, &bytes);
    for (const char *line = whole; *line != '\0'; lines++) {
        const char *end = strchr(line, '\n');
        assert_non_null(end);
        assert_int_equal(strncmp(line, "{\"seq\":", 7), 0);
        line = end + 1;
    }
    assert_int_equal(lines, exported);
    free(whole);
}

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
    write_policy(fixture, "\"token_seconds\": 900");
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
    begin_run(fixture, "run-1", 3600);
    begin_run(fixture, "run-2", 3600);
    budget_client *admin = fixture_client(fixture, "admin", 0);
    const budget_actual by_hand = {.label = "run-2", .usd_micro = USD(0.6)};
    assert_verdict(budget_record_actual(admin, &by_hand, &why), BUDGET_GRANTED, &why);
    assert_verdict(budget_terminated(admin, "run-1", "gone", 4, &why), BUDGET_GRANTED, &why);
    assert_verdict(budget_terminated(admin, "run-2", "gone", 4, &why), BUDGET_GRANTED, &why);
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
        cmocka_unit_test_setup_teardown(test_spend_and_export, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_a_cut_spend_line_is_written_anew, fixture_setup,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(test_a_file_of_others_is_left, fixture_setup,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(test_spend_goes_on_after_a_full_disk, fixture_setup,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(test_export_goes_on_page_by_page, fixture_setup,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(test_bill_and_audit, fixture_setup, fixture_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
