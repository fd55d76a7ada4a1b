/* Starts a budget-service of the test's own, with clients of every role. Used by the tests of the
 * service. */
#include "service_fixture.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "budget/secret_file.h"
#include "budget/server.h"
#include "proto/key.h"

enum { READY_MS = 120 * 1000, LINE_BYTES = 2 * BASE_PATH_BYTES + 64 };

void fixture_make(service_fixture *fixture)
{
    base_error error;
    uint8_t public_key[BUDGET_PUBLIC_KEY_BYTES];
    uint8_t secret_key[BUDGET_SECRET_KEY_BYTES];
    *fixture = (service_fixture){.output_fd = -1};
    test_directory_make(&fixture->directory);
    (void)snprintf(fixture->dir, sizeof fixture->dir, "%s", fixture->directory.path);
    assert_ok(budget_crypto_init(&error), &error);
    assert_int_equal(crypto_sign_keypair(public_key, secret_key), 0);
    assert_ok(budget_service_init(fixture->dir, secret_key, &error), &error);
    assert_ok(budget_keyring_add(&fixture->keyring, public_key, 1, &error), &error);
    assert_ok(budget_keyring_write(test_directory_path(&fixture->directory, "keyring.json"),
                                   &fixture->keyring, &error),
              &error);
    assert_ok(budget_secret_file_create(test_directory_path(&fixture->directory, "test.key"),
                                        secret_key, sizeof secret_key, &error),
              &error);
}

_Noreturn static void become_service(const service_fixture *fixture, int output_fd,
                                     const char *setting, const char *listen)
{
    (void)dup2(output_fd, STDOUT_FILENO);
    if (setting != NULL) {
        (void)putenv((char *)(uintptr_t)setting);
    }
    (void)execl(BUDGET_SERVE_TEST, BUDGET_SERVE_TEST, fixture->dir, listen, (char *)NULL);
    _exit(127);
}

/* The line that says that it is ready; false: its output ended before. */
static bool read_ready_line(service_fixture *fixture)
{
    char line[LINE_BYTES];
    size_t filled = 0;
    const int64_t deadline_ns = base_deadline_after_ns(READY_MS * BASE_NS_PER_MS);
    while (filled < sizeof line - 1) {
        struct pollfd waited = {.fd = fixture->output_fd, .events = POLLIN};
        if (poll(&waited, 1, base_deadline_poll_ms(deadline_ns, READY_MS)) <= 0) {
            fail_msg("the service is not ready in time");
        }
        const ssize_t got = read(fixture->output_fd, line + filled, sizeof line - 1 - filled);
        if (got <= 0) {
            return false;
        }
        filled += (size_t)got;
        line[filled] = '\0';
        if (line[filled - 1] == '\n') {
            (void)sscanf(line, "failed: %1023[^\n]", fixture->failure);
            return sscanf(line, "ready %4095s %4095s", fixture->endpoint,
                          fixture->redeem_endpoint) == 2;
        }
    }
    return false;
}

bool fixture_start_with(service_fixture *fixture, const char *setting, const char *listen)
{
    int pipe_fds[2];
    fixture->failure[0] = '\0';
    assert_int_equal(fixture->pid, 0);
    assert_int_equal(pipe2(pipe_fds, O_CLOEXEC), 0);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        become_service(fixture, pipe_fds[1], setting, listen);
    }
    (void)close(pipe_fds[1]);
    fixture->output_fd = pipe_fds[0];
    fixture->pid = child;
    if (read_ready_line(fixture)) {
        return true;
    }
    (void)fixture_wait(fixture);
    return false;
}

void fixture_start(service_fixture *fixture)
{
    assert_true(fixture_start_with(fixture, NULL, NULL));
}

int fixture_wait(service_fixture *fixture)
{
    int status = 0;
    while (waitpid(fixture->pid, &status, 0) < 0) {
        assert_int_equal(errno, EINTR);
    }
    fixture->pid = 0;
    (void)close(fixture->output_fd);
    fixture->output_fd = -1;
    return status;
}

int fixture_stop(service_fixture *fixture)
{
    assert_int_equal(kill(fixture->pid, SIGTERM), 0);
    return fixture_wait(fixture);
}

void fixture_remove(service_fixture *fixture)
{
    if (fixture->pid != 0) {
        (void)kill(fixture->pid, SIGKILL);
        (void)fixture_wait(fixture);
    }
    test_directory_remove(&fixture->directory);
}

budget_client *fixture_client(const service_fixture *fixture, const char *name, int64_t timeout_ms)
{
    base_error error;
    budget_client *client = NULL;
    const budget_client_options options = {
        .dir = fixture->dir, .key_name = name, .timeout_ms = timeout_ms};
    assert_ok(budget_client_open(&options, &client, &error), &error);
    return client;
}

void fixture_add_client(const service_fixture *fixture, const char *name, const char *role)
{
    base_error why;
    budget_client_key key = {0};
    char path[BASE_PATH_BYTES + 64];
    budget_service_address address;
    assert_ok(budget_service_address_read(fixture->dir, &address, &why), &why);
    proto_keypair_make(&key.keys);
    (void)snprintf(key.name, sizeof key.name, "%s", name);
    memcpy(key.service_public_key, address.public_key, sizeof key.service_public_key);
    (void)snprintf(path, sizeof path, "%s/clients/%s.key", fixture->dir, name);
    assert_ok(budget_client_key_write(path, &key, &why), &why);
    budget_client *admin = fixture_client(fixture, "admin", 0);
    assert_verdict(budget_client_add(admin, name, role, key.keys.public_key, &why), BUDGET_GRANTED,
                   &why);
    budget_client_close(admin);
}

void fixture_account(const service_fixture *fixture, const char *name, int64_t cap_usd_micro)
{
    base_error why;
    budget_client *admin = fixture_client(fixture, "admin", 0);
    assert_verdict(budget_account_create(admin, name, cap_usd_micro, &why), BUDGET_GRANTED, &why);
    budget_client_close(admin);
}

budget_claims fixture_ask(const char *account, const char *label, int64_t amount_usd_micro)
{
    budget_claims ask = {
        .max_usd_micro = amount_usd_micro,
        .mode = "ddp-nccl",
        .world_size = 4,
        .vendor = "runpod",
        .instance_type = "H100",
        .instances = 1,
        .gpus = 4,
        .tier = "spot",
        .max_price_usd_micro_per_hour = 1,
        .max_seconds = 3600,
        .max_attempts = 3,
    };
    (void)snprintf(ask.account, sizeof ask.account, "%s", account);
    (void)snprintf(ask.label, sizeof ask.label, "%s", label);
    memset(ask.job_blake2b256, 7, sizeof ask.job_blake2b256);
    return ask;
}

int fixture_setup(void **state)
{
    service_fixture *fixture = calloc(1, sizeof *fixture);
    assert_non_null(fixture);
    fixture_make(fixture);
    *state = fixture;
    return 0;
}

int fixture_teardown(void **state)
{
    fixture_remove(*state);
    free(*state);
    return 0;
}

void fixture_write_policy(const service_fixture *fixture, const char *members)
{
    char text[2 * BASE_PATH_BYTES];
    base_error error;
    (void)snprintf(text, sizeof text, "{\"version\": 1, %s}", members);
    assert_ok(base_file_write(test_directory_path(&fixture->directory, "policy.json"), text,
                              strlen(text), &error),
              &error);
}

budget_redeem_options fixture_redeemer(const service_fixture *fixture, proto_keypair *key)
{
    proto_keypair_make(key);
    return (budget_redeem_options){.dir = fixture->dir, .job_key = key};
}

void fixture_begin_run(const service_fixture *fixture, const char *label, int64_t seconds)
{
    base_error why;
    budget_grant grant;
    proto_keypair job;
    static budget_redemption redemption;
    const budget_redeem_options mine = fixture_redeemer(fixture, &job);
    budget_client *client = fixture_client(fixture, "request", 0);
    budget_claims ask = fixture_ask("phase35", label, USD(1));
    ask.max_seconds = seconds;
    assert_verdict(budget_authorize(client, &ask, &grant, &why), BUDGET_GRANTED, &why);
    assert_verdict(
        budget_redeem(&mine, grant.token, &(budget_redeem_ranks){0, 1, 1}, &redemption, &why),
        BUDGET_GRANTED, &why);
    budget_client_close(client);
}
