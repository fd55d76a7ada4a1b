/* The gate with right tokens and receipts, and with every kind of wrong ones: the real launcher and
 * the real rank, as users run them, and a paper service (mint.h). */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/file.h"
#include "budget/clock.h"
#include "launch/job_run.h"
#include "mint.h"
#include "program.h"
#include "proto/lease.h"
#include "rank/gate.h"

static test_program program; /* its buffers are big */
static mint paper;

static int setup(void **state)
{
    (void)state;
    mint_open(&paper);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    mint_close(&paper);
    return 0;
}

/* `launcher --mode gate-check` with the token and the receipts in the directory. */
static int check(const char *const *variables)
{
    char token[BASE_PATH_BYTES];
    char receipts[BASE_PATH_BYTES];
    char keyring[BASE_PATH_BYTES];
    (void)snprintf(token, sizeof token, "%s", test_directory_path(&paper.directory, "token"));
    (void)snprintf(receipts, sizeof receipts, "%s",
                   test_directory_path(&paper.directory, "receipts"));
    (void)snprintf(keyring, sizeof keyring, "%s",
                   test_directory_path(&paper.directory, "keyring.json"));
    test_program_start(&program,
                       (const char *const[]){LAUNCHER_PATH, "--mode", "gate-check", "--no-bind",
                                             "--token", token, "--receipts", receipts, "--keyring",
                                             keyring, NULL},
                       variables);
    const int exit_status = test_program_wait(&program);
    test_program_assert_no_children();
    return exit_status;
}

static void expect_refusal(const char *expected)
{
    const int exit_status = check(NULL);
    if (exit_status != 6 || strstr(program.text[TEST_STDERR], expected) == NULL ||
        strstr(program.text[TEST_STDOUT], "the sum is right") != NULL) {
        fail_msg("wanted 6 and \"%s\", got %d: %s%s", expected, exit_status,
                 program.text[TEST_STDERR], program.text[TEST_STDOUT]);
    }
}

static void right_papers_let_all_ranks_in(void **state)
{
    (void)state;
    const budget_claims claims = mint_claims(&paper);
    mint_write_all(&paper, &claims);
    if (check(NULL) != 0) {
        fail_msg("%s", program.text[TEST_STDERR]);
    }
    assert_non_null(strstr(program.text[TEST_STDOUT], "] the gate let all 2 ranks in"));
    assert_non_null(strstr(program.text[TEST_STDERR], "estimate: $1.00 "));
}

static void launch(const char *const flags[4], int expected, const char *expected_text)
{
    char keyring[BASE_PATH_BYTES];
    (void)snprintf(keyring, sizeof keyring, "%s",
                   test_directory_path(&paper.directory, "keyring.json"));
    test_program_start(&program,
                       (const char *const[]){LAUNCHER_PATH, "--mode", "gate-check", "--no-bind",
                                             "--dry-run", "--keyring", keyring, flags[0], flags[1],
                                             flags[2], flags[3], NULL},
                       NULL);
    const int exit_status = test_program_wait(&program);
    if (exit_status != expected || strstr(program.text[TEST_STDERR], expected_text) == NULL) {
        fail_msg("wanted %d and \"%s\", got %d: %s", expected, expected_text, exit_status,
                 program.text[TEST_STDERR]);
    }
}

static void a_plan_says_what_its_token_may_cost(void **state)
{
    (void)state;
    char token[BASE_PATH_BYTES];
    const budget_claims good = mint_claims(&paper);
    budget_claims other = good;
    mint_write_all(&paper, &good);
    (void)snprintf(token, sizeof token, "%s", test_directory_path(&paper.directory, "token"));
    launch((const char *const[4]){"--token", token, "--quiet"}, 0, "estimate: $1.00 ");
    other.job_blake2b256[0] ^= 1;
    mint_write_token(&paper, &other);
    launch((const char *const[4]){"--token", token}, 6, "wrong-job");
    launch((const char *const[4]){"--authorize", "local", "--vendor", "runpod"}, 2, "own GPU");
}

static void a_token_for_something_else_is_refused(void **state)
{
    (void)state;
    const budget_claims good = mint_claims(&paper);
    mint_write_all(&paper, &good);

    budget_claims claims = good;
    claims.job_blake2b256[31] ^= 1;
    mint_write_token(&paper, &claims);
    expect_refusal("wrong-job");

    claims = good;
    (void)snprintf(claims.mode, sizeof claims.mode, "tp-nccl");
    mint_write_token(&paper, &claims);
    expect_refusal("wrong-job");

    claims = good;
    claims.world_size = 4;
    mint_write_token(&paper, &claims);
    expect_refusal("wrong-job");

    claims = good;
    (void)snprintf(claims.vendor, sizeof claims.vendor, "local");
    (void)snprintf(claims.machine_id, sizeof claims.machine_id, "%s",
                   "0123456789abcdef0123456789abcdef");
    claims.max_usd_micro = 0;
    claims.max_price_usd_micro_per_hour = 0;
    mint_write_token(&paper, &claims);
    expect_refusal("for another machine");
}

static void a_token_of_somebody_else_is_refused(void **state)
{
    (void)state;
    const budget_claims claims = mint_claims(&paper);
    mint_write_all(&paper, &claims);
    mint other;
    mint_open(&other);
    mint forged = paper;
    memcpy(forged.secret, other.secret, sizeof forged.secret);
    mint_write_token(&forged, &claims);
    expect_refusal("unknown-key");
    mint_close(&other);

    mint_write_all(&paper, &claims);
    base_error error;
    size_t token_bytes = 0;
    const char *path = test_directory_path(&paper.directory, "token");
    void *token = test_file_read(path, &token_bytes);
    ((char *)token)[40] ^= 1; /* inside the payload */
    assert_ok(base_file_write(path, token, token_bytes, &error), &error);
    free(token);
    expect_refusal("the token does not allow this job");
}

static void a_receipt_for_something_else_is_refused(void **state)
{
    (void)state;
    const budget_claims claims = mint_claims(&paper);
    mint_write_all(&paper, &claims);
    const budget_receipt good = mint_receipt(&paper, &claims, 1);
    proto_keypair other;
    proto_keypair_make(&other);

    budget_receipt receipt = good;
    receipt.rank = 0;
    mint_write_receipt(&paper, &receipt, 1);
    expect_refusal("does not admit rank 1");

    receipt = good;
    receipt.attempt = 2;
    mint_write_receipt(&paper, &receipt, 1);
    expect_refusal("does not admit rank 1");

    receipt = good;
    budget_jti_make(receipt.jti);
    mint_write_receipt(&paper, &receipt, 1);
    expect_refusal("does not admit rank 1");

    receipt = good;
    memcpy(receipt.job_public_key, other.public_key, sizeof receipt.job_public_key);
    mint_write_receipt(&paper, &receipt, 1);
    expect_refusal("does not admit rank 1");

    receipt = good;
    receipt.issued_at -= 7200;
    receipt.not_after = (int64_t)time(NULL) - 1;
    mint_write_receipt(&paper, &receipt, 1);
    expect_refusal("expired");

    mint_write_receipt(&paper, &good, 1);
    assert_int_equal(check(NULL), 0);
}

static void write_clock(const char *boot_id, int64_t boot_ms, int64_t wall_ms)
{
    char line[128];
    base_error error;
    const char *path = test_directory_path(&paper.directory, "receipts/clock");
    (void)snprintf(line, sizeof line, "v1 %s %lld %lld\n", boot_id, (long long)boot_ms,
                   (long long)wall_ms);
    assert_ok(base_file_write(path, line, strlen(line), &error), &error);
    assert_int_equal(chmod(path, 0600), 0);
}

/* A wall clock that is set back does not undo what DIR/clock has recorded. */
static void a_clock_that_is_set_back_revives_no_receipt(void **state)
{
    (void)state;
    base_error error;
    budget_clock now;
    const budget_claims claims = mint_claims(&paper);
    mint_write_all(&paper, &claims); /* for an hour */
    assert_ok(budget_clock_read(&now, &error), &error);
    write_clock(now.boot_id, now.boot_ms, now.wall_ms + INT64_C(3601) * 1000);
    expect_refusal("expired");
    expect_refusal("expired"); /* and it is kept */
    write_clock("another-boot", 1, now.wall_ms + INT64_C(3601) * 1000);
    expect_refusal("expired");
    write_clock(now.boot_id, now.boot_ms - INT64_C(3601) * 1000, now.wall_ms); /* an hour has run */
    expect_refusal("expired");
    write_clock("", now.boot_ms, now.wall_ms); /* not to be read: not believed, and not replaced */
    expect_refusal("clock is malformed");
    write_clock(now.boot_id, now.boot_ms, now.wall_ms - 1000);
    assert_int_equal(check(NULL), 0);
    assert_int_equal(unlink(test_directory_path(&paper.directory, "receipts/clock")), 0);
    assert_int_equal(check(NULL), 0);
    assert_int_equal(access(test_directory_path(&paper.directory, "receipts/clock"), F_OK), 0);
}

/* Somebody copies the receipts, but has not the job's key. */
static void copied_receipts_start_nothing(void **state)
{
    (void)state;
    const budget_claims claims = mint_claims(&paper);
    mint_write_all(&paper, &claims);
    mint thief = paper;
    proto_keypair_make(&thief.job_key);
    mint_write_job_key(&thief);
    expect_refusal("does not admit rank");
    /* the right public half without the secret half: no handshake succeeds */
    memcpy(thief.job_key.public_key, paper.job_key.public_key, sizeof thief.job_key.public_key);
    mint_write_job_key(&thief);
    char token[BASE_PATH_BYTES];
    (void)snprintf(token, sizeof token, "%s", test_directory_path(&paper.directory, "token"));
    assert_int_not_equal(check(NULL), 0);
    assert_null(strstr(program.text[TEST_STDOUT], "the sum is right"));
}

static void the_environment_changes_nothing(void **state)
{
    (void)state;
    const budget_claims claims = mint_claims(&paper);
    mint_write_all(&paper, &claims);
    assert_int_equal(check((const char *const[]){"RINGFENCE_COLL_ALGORITHM=ring", NULL}), 6);
    assert_non_null(strstr(program.text[TEST_STDERR], "RINGFENCE_COLL_ALGORITHM is 'ring'"));
    assert_int_equal(check((const char *const[]){"RINGFENCE_LEASE_FD=0", NULL}), 0);
}

/* The launcher gives out no lease (ours never does that). The rank itself refuses. */
static void without_a_token_the_rank_itself_refuses(void **state)
{
    (void)state;
    base_error error;
    proto_job job;
    launch_job_result result;
    assert_ok(proto_job_parse(paper.job, paper.job_bytes, &job, &error), &error);
    const launch_job_options options = {.job = &job, .rank_path = RANK_PATH, .quiet = true};
    assert_ok(launch_job_run(&options, &result, &error), &error);
    assert_int_equal(result.exit_status, 6);
    launch_job_result_fini(&result);
    test_program_assert_no_children();
}

/* What the launcher gives rank 0, with the right papers. */
static proto_lease *make_lease(const budget_claims *claims)
{
    static proto_lease lease;
    base_error error;
    const budget_receipt receipt = mint_receipt(&paper, claims, 0);
    lease = (proto_lease){.attempt = 1};
    assert_ok(budget_token_sign(claims, paper.secret, lease.token, &error), &error);
    assert_ok(budget_receipt_sign(&receipt, paper.secret, lease.receipt, &error), &error);
    (void)snprintf(lease.keyring, sizeof lease.keyring, "%s",
                   test_directory_path(&paper.directory, "keyring.json"));
    return &lease;
}

/* Enters the gate as rank 0, in this process. */
static base_status enter(const proto_lease *lease, int *exit_code, base_error *reterr)
{
    base_error error;
    proto_job job;
    rank_pass *pass = NULL;
    int fd = -1;
    char number[16];
    assert_ok(proto_job_parse(paper.job, paper.job_bytes, &job, &error), &error);
    assert_ok(proto_lease_write(lease, &fd, &error), &error);
    (void)snprintf(number, sizeof number, "%d", fd);
    (void)setenv("RINGFENCE_LEASE_FD", number, 1);
    const rank_gate_info info = {.rank = 0,
                                 .job = &job,
                                 .job_bytes = paper.job,
                                 .job_size = paper.job_bytes,
                                 .launcher_public_key = paper.job_key.public_key};
    const base_status status = rank_gate_enter(&info, &pass, exit_code, reterr);
    (void)unsetenv("RINGFENCE_LEASE_FD");
    rank_pass_destroy(pass);
    return status;
}

/* A receipt that is missing in the lease, and in the directory. */
static void without_a_receipt_the_rank_refuses(void **state)
{
    (void)state;
    base_error error;
    int exit_code = 0;
    const budget_claims claims = mint_claims(&paper);
    proto_lease *lease = make_lease(&claims);
    lease->receipt[0] = '\0';
    for (lease->attempt = 1; lease->attempt <= 2; lease->attempt++) {
        assert_status(enter(lease, &exit_code, &error), BASE_ERR_AUTH);
        assert_int_equal(exit_code, 6);
        assert_non_null(strstr(error.message, "the receipt does not admit rank 0 (malformed)"));
    }
    mint_write_all(&paper, &claims);
    const char *path = test_directory_path(&paper.directory, "receipts/rank-1.receipt");
    assert_ok(base_file_write(path, "", 0, &error), &error);
    expect_refusal("the receipt does not admit rank 1 (malformed)");
    assert_int_equal(unlink(path), 0);
    expect_refusal("rank-1.receipt");
}

/* In a process of its own: passes the gate with a second's lease, then stops itself. */
static void pass_and_stop(const proto_lease *lease)
{
    base_error error;
    int exit_code = 0;
    if (enter(lease, &exit_code, &error) != BASE_OK) {
        _exit(exit_code);
    }
    (void)raise(SIGSTOP);
    (void)pause();
    _exit(12);
}

static void the_kernel_ends_a_stopped_rank_at_the_deadline(void **state)
{
    (void)state;
    budget_claims claims = mint_claims(&paper);
    claims.max_seconds = 1;
    const proto_lease *lease = make_lease(&claims);
    const pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        pass_and_stop(lease);
    }
    int status = 0;
    assert_int_equal(waitpid(pid, &status, WUNTRACED), pid);
    assert_true(WIFSTOPPED(status));
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), SIGKILL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(right_papers_let_all_ranks_in, setup, teardown),
        cmocka_unit_test_setup_teardown(a_plan_says_what_its_token_may_cost, setup, teardown),
        cmocka_unit_test_setup_teardown(a_token_for_something_else_is_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(a_token_of_somebody_else_is_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(a_receipt_for_something_else_is_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(a_clock_that_is_set_back_revives_no_receipt, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(copied_receipts_start_nothing, setup, teardown),
        cmocka_unit_test_setup_teardown(the_environment_changes_nothing, setup, teardown),
        cmocka_unit_test_setup_teardown(without_a_token_the_rank_itself_refuses, setup, teardown),
        cmocka_unit_test_setup_teardown(without_a_receipt_the_rank_refuses, setup, teardown),
        cmocka_unit_test_setup_teardown(the_kernel_ends_a_stopped_rank_at_the_deadline, setup,
                                        teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
