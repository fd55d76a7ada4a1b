/* How the service is started, and what it needs for that: its memory, its disk, its directory, its
 * sockets, the keys of its clients, its keyring. A full disk at a client. And a long alarm for its hook. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"
#include "budget/server.h"
#include "proto/key.h"
#include "service_fixture.h"

/* Locked memory, and no core: what the kernel says of the service itself. */
static void test_locked_memory(void **state)
{
    service_fixture *fixture = *state;
    char path[64];
    char line[256];
    long locked_kib = 0;
    fixture_start(fixture);
    (void)snprintf(path, sizeof path, "/proc/%d/status", (int)fixture->pid);
    FILE *file = fopen(path, "re");
    assert_non_null(file);
    while (fgets(line, sizeof line, file) != NULL) {
        if (strncmp(line, "VmLck:", 6) == 0) {
            locked_kib = strtol(line + 6, NULL, 10);
        }
    }
    (void)fclose(file);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
    /* sanitizers lock nothing */
    assert_true(locked_kib > 0);
#else
    (void)locked_kib;
#endif
    /* not dumpable: its /proc entries are root's, whoever runs it */
    struct stat status;
    (void)snprintf(path, sizeof path, "/proc/%d/mem", (int)fixture->pid);
    assert_int_equal(stat(path, &status), 0);
    assert_int_equal(status.st_uid, 0);
}

/* A failed sync ends the service without an answer; afterwards the same question is granted. */
static void test_failed_sync(void **state)
{
    service_fixture *fixture = *state;
    base_error why;
    budget_grant grant;
    char setting[BASE_PATH_BYTES + 64];
    const char *trigger = test_directory_path(&fixture->directory, "fail-sync");
    (void)snprintf(setting, sizeof setting, "BUDGET_FAIL_SYNC=%s", trigger);
    assert_true(fixture_start_with(fixture, setting, NULL));
    fixture_account(fixture, "phase35", USD(5));
    budget_client *client = fixture_client(fixture, "request", 500);
    const budget_claims ask = fixture_ask("phase35", "run-1", USD(1));
    assert_ok(base_file_write(trigger, "", 0, &why), &why);
    assert_ok(budget_client_set_request_id(client, "sync-1", &why), &why);
    assert_verdict(budget_authorize(client, &ask, &grant, &why), BUDGET_UNKNOWN, &why);
    const int status = fixture_wait(fixture);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 1);
    assert_int_equal(unlink(trigger), 0);
    fixture_start(fixture);
    assert_ok(budget_client_set_request_id(client, "sync-1", &why), &why);
    assert_verdict(budget_authorize(client, &ask, &grant, &why), BUDGET_GRANTED, &why);
    budget_chain chain;
    assert_verdict(budget_remaining(client, "phase35", &chain, &why), BUDGET_GRANTED, &why);
    assert_int_equal(chain.accounts[0].reserved_usd_micro, USD(1));
    budget_client_close(client);
}

/* What is on disk without its checkpoint is not called undone: the service ends without an answer,
 * and after a restart the same question gets the answer that was decided. */
static void test_no_room_for_a_checkpoint(void **state)
{
    service_fixture *fixture = *state;
    base_error why;
    budget_grant grant;
    proto_keypair job;
    char setting[BASE_PATH_BYTES + 64];
    char full[BASE_PATH_BYTES];
    budget_permit permit = {0};
    (void)snprintf(setting, sizeof setting, "BUDGET_FULL_FILE=%s",
                   test_directory_path(&fixture->directory, "checkpoints"));
    (void)snprintf(full, sizeof full, "%s",
                   test_directory_path(&fixture->directory, "checkpoints.full"));
    assert_true(fixture_start_with(fixture, setting, NULL));
    fixture_account(fixture, "phase35", USD(5));
    budget_client *client = fixture_client(fixture, "request", 500);
    const budget_claims ask = fixture_ask("phase35", "run-1", USD(1));
    const budget_claims other = fixture_ask("phase35", "run-2", USD(1));
    assert_verdict(budget_authorize(client, &ask, &grant, &why), BUDGET_GRANTED, &why);
    budget_redeem_options redeemer = fixture_redeemer(fixture, &job);
    redeemer.timeout_ms = 500;

    assert_ok(base_file_write(full, "", 0, &why), &why);
    assert_verdict(budget_redeem_create(&redeemer, grant.token, &permit, &why), BUDGET_UNKNOWN,
                   &why);
    int status = fixture_wait(fixture);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 1);
    assert_true(fixture_start_with(fixture, setting, NULL)); /* there is no room yet */
    assert_verdict(budget_redeem_create(&redeemer, grant.token, &permit, &why), BUDGET_REFUSED,
                   &why);
    assert_ok(budget_client_set_request_id(client, "full-1", &why), &why);
    assert_verdict(budget_authorize(client, &other, &grant, &why), BUDGET_UNKNOWN, &why);
    status = fixture_wait(fixture);
    assert_int_equal(WEXITSTATUS(status), 1);
    assert_int_equal(unlink(full), 0);
    fixture_start(fixture);
    assert_ok(budget_client_set_request_id(client, "full-1", &why), &why);
    assert_verdict(budget_authorize(client, &other, &grant, &why), BUDGET_GRANTED, &why);
    budget_chain chain;
    assert_verdict(budget_remaining(client, "phase35", &chain, &why), BUDGET_GRANTED, &why);
    assert_int_equal(chain.accounts[0].reserved_usd_micro, USD(2));
    budget_client_close(client);
}

static void test_directory_that_others_enter(void **state)
{
    service_fixture *fixture = *state;
    assert_int_equal(chmod(test_directory_path(&fixture->directory, "run"), 0755), 0);
    assert_false(fixture_start_with(fixture, NULL, NULL));
    assert_int_equal(chmod(test_directory_path(&fixture->directory, "run"), 0700), 0);
    fixture_start(fixture);
}

/* A new ledger in its place would have forgotten all that was spent. */
static void test_ledger_that_is_missing(void **state)
{
    service_fixture *fixture = *state;
    char ledger[BASE_PATH_BYTES];
    char away[BASE_PATH_BYTES + 8];
    (void)snprintf(ledger, sizeof ledger, "%s",
                   test_directory_path(&fixture->directory, "ledger.db"));
    (void)snprintf(away, sizeof away, "%s.away", ledger);
    assert_int_equal(rename(ledger, away), 0);
    assert_false(fixture_start_with(fixture, NULL, NULL));
    assert_non_null(strstr(fixture->failure, "ledger.db is missing: put the newest copies of it"));
    assert_int_not_equal(access(ledger, F_OK), 0);
    assert_int_equal(rename(away, ledger), 0);
    fixture_start(fixture);
}

static void test_long_socket_path(void **state)
{
    service_fixture *fixture = *state;
    char listen[256];
    base_error error = {0};
    budget_client *client = NULL;
    (void)snprintf(listen, sizeof listen, "ipc:///tmp/%0120d", 0);
    assert_false(fixture_start_with(fixture, NULL, listen));
    const budget_client_options options = {.dir = fixture->dir, .endpoint = listen};
    assert_status(budget_client_open(&options, &client, &error), BASE_ERR_LIMIT);
    assert_non_null(strstr(error.message, "shorter name"));
}

static void test_tcp_address(void **state)
{
    service_fixture *fixture = *state;
    static const char *const bad[] = {
        "tcp://127.0.0.1:99999", "tcp://127.0.0.1:65536", "tcp://127.0.0.1",     "tcp://127.0.0.1:",
        "tcp://:5000",           "tcp://127.0.0.1:-1",    "tcp://127.0.0.1:50x", "tcp://"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_false(fixture_start_with(fixture, NULL, bad[i]));
        assert_non_null(strstr(fixture->failure, "tcp://ADDRESS:PORT, with a PORT from 0"));
    }
    assert_false(fixture_start_with(fixture, NULL, "tcp://no-such-host.invalid:*"));
    assert_non_null(strstr(fixture->failure, "one of this host's"));
    assert_true(fixture_start_with(fixture, NULL, "tcp://127.0.0.1:0"));
}

static void test_key_file_that_others_read(void **state)
{
    service_fixture *fixture = *state;
    base_error error = {0};
    budget_client *client = NULL;
    const budget_client_options options = {.dir = fixture->dir};
    assert_int_equal(chmod(test_directory_path(&fixture->directory, "clients/request.key"), 0644),
                     0);
    assert_status(budget_client_open(&options, &client, &error), BASE_ERR_AUTH);
}

/* A keyring that cannot be read once is read later, although it has not changed since. */
static void test_keyring_that_cannot_be_read(void **state)
{
    service_fixture *fixture = *state;
    base_error why;
    budget_grant grant;
    budget_keyring *keyring = &fixture->keyring;
    fixture_start(fixture);
    fixture_account(fixture, "phase35", USD(5));
    const char *path = test_directory_path(&fixture->directory, "keyring.json");
    budget_client *client = fixture_client(fixture, "request", 0);
    const budget_claims first = fixture_ask("phase35", "run-1", USD(1));
    const budget_claims second = fixture_ask("phase35", "run-2", USD(1));
    keyring->keys[0].revoked_at = 2;
    assert_ok(budget_keyring_write(path, keyring, &why), &why);
    (void)signal(SIGIO, SIG_IGN); /* says that somebody wants to open it */
    const int fd = open(path, O_RDWR | O_CLOEXEC);
    assert_true(fd >= 0);
    if (fcntl(fd, F_SETLEASE, F_WRLCK) !=
        0) { /* until it is given up, nobody else opens the file */
        (void)close(fd);
        budget_client_close(client);
        print_message("no lease of a file here: %s\n", strerror(errno));
        skip();
    }
    assert_verdict(budget_authorize(client, &first, &grant, &why), BUDGET_GRANTED, &why);
    assert_int_equal(fcntl(fd, F_SETLEASE, F_UNLCK), 0);
    (void)close(fd);
    assert_verdict(budget_authorize(client, &second, &grant, &why), BUDGET_REFUSED, &why);
    assert_non_null(strstr(why.message, "is revoked: stop the service"));
    budget_client_close(client);
}

/* An alarm may have any length: where a user has many pipes, the system gives short ones. */
static void test_long_alarm_does_not_block(void **state)
{
    enum { LONGER_THAN_A_PIPE = 200 * 1000 };
    static char alarm[LONGER_THAN_A_PIPE + 1];
    const char *const command[] = {"/bin/sh", "-c", "test $(wc -c) = 200000", NULL};
    char text[BASE_ERROR_MESSAGE_BYTES];
    base_error why = {0};
    int exit_code = -1;
    (void)state;
    memset(alarm, ' ', LONGER_THAN_A_PIPE);
    assert_ok(budget_hook_try(command, alarm, &exit_code, text, &why), &why);
    assert_int_equal(exit_code, 0);
}

/* A client that cannot remember the newest row is told why it was refused, and sees the alarms. What was
 * granted it gets only when it can. */
static void test_a_full_disk_hides_no_answer(void **state)
{
    service_fixture *fixture = *state;
    base_error why = {0};
    static budget_grant grant;
    budget_report report;
    struct rlimit before;
    const budget_status_sinks sinks = {0};
    fixture_start(fixture);
    fixture_account(fixture, "phase35", USD(5));
    budget_client *client = fixture_client(fixture, "request", 0);
    const budget_claims ask = fixture_ask("phase35", "run-1", USD(1));
    const budget_claims over = fixture_ask("phase35", "run-2", USD(1000));
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    const struct rlimit full = {.rlim_max = before.rlim_max};
    void (*const on_excess)(int) = signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &full), 0);
    const budget_verdict status = budget_status(client, &sinks, &report, &why);
    const budget_verdict refused = budget_authorize(client, &over, &grant, &why);
    const budget_verdict unknown = budget_authorize(client, &ask, &grant, &why);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    (void)signal(SIGXFSZ, on_excess);
    assert_non_null(strstr(why.message, "cannot remember the ledger's newest row"));
    assert_verdict(status, BUDGET_GRANTED, &why);
    assert_verdict(refused, BUDGET_EXCEEDED, &why);
    assert_verdict(unknown, BUDGET_UNKNOWN, &why);
    char request_id[BUDGET_REQUEST_ID_BYTES];
    (void)snprintf(request_id, sizeof request_id, "%s", budget_client_request_id(client));
    assert_ok(budget_client_set_request_id(client, request_id, &why), &why);
    assert_verdict(budget_authorize(client, &ask, &grant, &why), BUDGET_GRANTED, &why);
    budget_client_close(client);
}

/* A hook that cannot be run is found at the start, not at the first alarm. */
static void test_hook_that_is_no_program_is_refused(void **state)
{
    service_fixture *fixture = *state;
    base_error why;
    char members[2 * BASE_PATH_BYTES];
    const char *program = test_directory_path(&fixture->directory, "hook.sh");
    (void)snprintf(members, sizeof members, "\"hook\": [\"%s\"]", program);
    fixture_write_policy(fixture, members);
    assert_false(fixture_start_with(fixture, NULL, NULL));
    assert_non_null(strstr(fixture->failure, "hook.sh"));
    assert_ok(base_file_write(program, "#!/bin/sh\n", 10, &why), &why);
    assert_int_equal(chmod(program, 0600), 0);
    assert_false(fixture_start_with(fixture, NULL, NULL));
    assert_non_null(strstr(fixture->failure, "no program that may be run"));
    assert_int_equal(chmod(program, 0700), 0);
    fixture_start(fixture);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_long_alarm_does_not_block),
        cmocka_unit_test_setup_teardown(test_locked_memory, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_failed_sync, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_no_room_for_a_checkpoint, fixture_setup,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(test_a_full_disk_hides_no_answer, fixture_setup,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(test_directory_that_others_enter, fixture_setup,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(test_ledger_that_is_missing, fixture_setup,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(test_hook_that_is_no_program_is_refused, fixture_setup,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(test_long_socket_path, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_tcp_address, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_key_file_that_others_read, fixture_setup,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(test_keyring_that_cannot_be_read, fixture_setup,
                                        fixture_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
