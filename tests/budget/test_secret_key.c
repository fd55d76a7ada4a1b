/* budget/secret_key.h and passphrase.h: wrapped keys, PASERK's test vectors, and where a passphrase
 * comes from. */
#include "budget/secret_key.h"

#include <fcntl.h>
#include <pty.h>
#include <signal.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include "base/clock.h"
#include "budget/passphrase.h"
#include "budget/secret_file.h"
#include "budget/token.h"
#include "support.h"

/* Cheap, so that every changed character can be tried. */
static const budget_key_cost cheap = {8192, 1};

static budget_passphrase *passphrase_of(const char *text)
{
    int fds[2];
    budget_passphrase *passphrase = NULL;
    base_error error = {0};
    assert_int_equal(pipe(fds), 0);
    assert_int_equal(write(fds[1], text, strlen(text)), strlen(text));
    (void)close(fds[1]);
    const budget_passphrase_source source = {.fd = fds[0]};
    assert_ok(budget_passphrase_open(&source, &passphrase, &error), &error);
    (void)close(fds[0]);
    return passphrase;
}

static void a_wrapped_key_opens_with_its_passphrase_alone(void **state)
{
    (void)state;
    char text[BUDGET_PASERK_SECRET_PW_BYTES];
    char again[BUDGET_PASERK_SECRET_PW_BYTES];
    base_error error = {0};
    budget_secret_key *key = NULL;
    budget_secret_key *opened = NULL;
    budget_passphrase *right = passphrase_of("correct horse\n");
    budget_passphrase *wrong = passphrase_of("correct horse ");
    assert_ok(budget_secret_key_make(&key, &error), &error);
    assert_ok(budget_secret_key_wrap(key, right, &cheap, text, &error), &error);
    assert_ok(budget_secret_key_wrap(key, right, &cheap, again, &error), &error);
    assert_string_not_equal(text, again);
    assert_int_equal(strlen(text), sizeof text - 1);
    assert_ok(budget_secret_key_unwrap(text, strlen(text), right, &opened, &error), &error);
    assert_memory_equal(budget_secret_key_bytes(opened), budget_secret_key_bytes(key), 64);
    budget_secret_key_free(opened);
    assert_status(budget_secret_key_unwrap(text, strlen(text), wrong, &opened, &error),
                  BASE_ERR_AUTH);
    budget_secret_key_free(key);
    budget_passphrase_close(right);
    budget_passphrase_close(wrong);
}

/* Each character is changed: the parameters must be in range or the tag must fail. */
static void a_changed_key_file_never_opens(void **state)
{
    (void)state;
    char text[BUDGET_PASERK_SECRET_PW_BYTES];
    base_error error = {0};
    budget_secret_key *key = NULL;
    budget_secret_key *opened = NULL;
    budget_passphrase *passphrase = passphrase_of("x");
    assert_ok(budget_secret_key_make(&key, &error), &error);
    assert_ok(budget_secret_key_wrap(key, passphrase, &cheap, text, &error), &error);
    for (size_t i = 0; i < strlen(text); i++) {
        const char was = text[i];
        text[i] = was == 'A' ? 'B' : 'A';
        const base_status status =
            budget_secret_key_unwrap(text, strlen(text), passphrase, &opened, NULL);
        assert_true(status == BASE_ERR_AUTH || status == BASE_ERR_INVALID);
        text[i] = was;
    }
    for (size_t length = 0; length < strlen(text); length++) {
        assert_status(budget_secret_key_unwrap(text, length, passphrase, &opened, NULL),
                      BASE_ERR_INVALID);
    }
    budget_secret_key_free(key);
    budget_passphrase_close(passphrase);
}

/* PASERK's own vectors (test-vectors/PASERK/k4.secret-pw.json, both). */
static void other_people_s_wrapped_keys_open(void **state)
{
    (void)state;
    static const char *const wrapped[] = {
        "k4.secret-pw.Stkwnh1lHUA7p3t2GDRxdQAAAAAEAAAAAAAAAgAAAAEUtfYRjsLAnE5hGX0Ni8H_W2XdVz5laZ9Md"
        "ByIYgnDQnXEEx7NyXzBHhKdNVa12XhSLNTNMLuSo5kDMsJUHlEMt8yIE-F7GMDvBXTFvNFniK1Ao0TreYqIYTSKfIv"
        "fcZhwiWuHqFGddVhOvTrNt8zi53IeF-g089U",
        "k4.secret-pw.8SqqKhga2erPtJdHMtSD3QAAAAAQAAAAAAAAAwAAAAFgsqMCqzX86kHsjfVlP05h7FBHA-438QAYi"
        "iTY4IhpGLDnZLmxLrB4A6P_cC_o2zZR_kxzf5NgsmrsAe-FgrI4e0zd2FhVC3G9d6huc8aKqe-wcUSTLpQsCFTnkuV"
        "HM2_sIXQaPoKQl14g-ZjmGEMjtVXiDX6Tb2k",
    };
    uint8_t expected[BUDGET_SECRET_KEY_BYTES];
    budget_passphrase *passphrase = passphrase_of("correct horse battery staple");
    assert_int_equal(sodium_hex2bin(expected, sizeof expected,
                                    "707172737475767778797a7b7c7d7e7f808182838485868788898a8b8c8d8e"
                                    "8f1ce56a48c82ff99162a14bc544612674e5d61fb9317e65d4055780fdbcb4"
                                    "dc35",
                                    128, NULL, NULL, NULL),
                     0);
    for (size_t i = 0; i < sizeof wrapped / sizeof wrapped[0]; i++) {
        base_error error = {0};
        budget_secret_key *key = NULL;
        assert_ok(
            budget_secret_key_unwrap(wrapped[i], strlen(wrapped[i]), passphrase, &key, &error),
            &error);
        assert_memory_equal(budget_secret_key_bytes(key), expected, sizeof expected);
        budget_secret_key_free(key);
    }
    budget_passphrase_close(passphrase);
}

/* A seed with another's public key would give itself away by signing. */
static void a_key_of_two_pairs_never_opens(void **state)
{
    (void)state;
    char text[BUDGET_PASERK_SECRET_PW_BYTES];
    base_error error = {0};
    budget_secret_key *key = NULL;
    budget_secret_key *opened = NULL;
    budget_passphrase *passphrase = passphrase_of("x");
    assert_ok(budget_secret_key_make(&key, &error), &error);
    assert_int_equal(sodium_mprotect_readwrite(key), 0);
    uint8_t *public_half = (uint8_t *)(uintptr_t)budget_secret_key_public(key);
    public_half[BUDGET_PUBLIC_KEY_BYTES - 1] ^= 1;
    assert_ok(budget_secret_key_wrap(key, passphrase, &cheap, text, &error), &error);
    assert_status(budget_secret_key_unwrap(text, strlen(text), passphrase, &opened, &error),
                  BASE_ERR_AUTH);
    assert_non_null(strstr(error.message, "no Ed25519 key"));
    assert_null(opened);
    budget_secret_key_free(key);
    budget_passphrase_close(passphrase);
}

static void a_key_rests_in_a_file_and_comes_back(void **state)
{
    (void)state;
    test_directory directory;
    base_error error = {0};
    budget_secret_key *key = NULL;
    budget_secret_key *again = NULL;
    budget_passphrase *passphrase = passphrase_of("secret");
    test_directory_make(&directory);
    const char *path = test_directory_path(&directory, "signing.key");
    assert_ok(budget_secret_key_make(&key, &error), &error);
    assert_ok(budget_secret_key_write(path, key, passphrase, &error), &error);
    assert_status(budget_secret_key_write(path, key, passphrase, &error), BASE_ERR_STATE);
    assert_ok(budget_secret_key_read(path, passphrase, &again, &error), &error);
    assert_memory_equal(budget_secret_key_bytes(again), budget_secret_key_bytes(key), 64);
    budget_secret_key_free(key);
    budget_secret_key_free(again);
    budget_passphrase_close(passphrase);
    test_directory_remove(&directory);
}

static void a_passphrase_comes_from_where_it_is_said(void **state)
{
    (void)state;
    test_directory directory;
    base_error error = {0};
    budget_passphrase *passphrase = NULL;
    test_directory_make(&directory);
    const char *path = test_directory_path(&directory, BUDGET_PASSPHRASE_CREDENTIAL);
    assert_ok(budget_secret_file_create(path, "from credentials\n", 17, &error), &error);
    const budget_passphrase_source nowhere = {.fd = -1};
    const budget_passphrase_source file = {.file = path, .fd = -1};
    const int saved = dup(STDIN_FILENO);
    const int nothing = open("/dev/null", O_RDONLY);
    assert_true(dup2(nothing, STDIN_FILENO) == STDIN_FILENO);
    assert_int_equal(unsetenv("CREDENTIALS_DIRECTORY"), 0);
    assert_status(budget_passphrase_open(&nowhere, &passphrase, &error), BASE_ERR_NOTFOUND);
    assert_non_null(strstr(error.message, "--passphrase-file"));
    assert_ok(budget_passphrase_open(&file, &passphrase, &error), &error);
    assert_string_equal(passphrase->text, "from credentials");
    budget_passphrase_close(passphrase);
    assert_int_equal(setenv("CREDENTIALS_DIRECTORY", directory.path, 1), 0);
    assert_ok(budget_passphrase_open(&nowhere, &passphrase, &error), &error);
    assert_string_equal(passphrase->text, "from credentials");
    budget_passphrase_close(passphrase);
    assert_int_equal(chmod(path, 0644), 0);
    assert_status(budget_passphrase_open(&file, &passphrase, &error), BASE_ERR_AUTH);
    const int free_fd = dup(nothing);
    (void)close(free_fd);
    const budget_passphrase_source closed = {.fd = free_fd};
    assert_status(budget_passphrase_open(&closed, &passphrase, &error), BASE_ERR_IO);
    const budget_passphrase_source empty = {.fd = nothing};
    assert_status(budget_passphrase_open(&empty, &passphrase, &error), BASE_ERR_INVALID);
    (void)dup2(saved, STDIN_FILENO);
    (void)close(saved);
    (void)close(nothing);
    assert_int_equal(unsetenv("CREDENTIALS_DIRECTORY"), 0);
    test_directory_remove(&directory);
}

enum { INTERRUPTED = 7 };

/* Asks at a terminal, of which only the test's end is known, and which is its own. */
static void ask_at(const char *terminal, bool blocks_signals)
{
    sigset_t interrupts;
    budget_passphrase *passphrase = NULL;
    (void)setsid();
    const int inside = open(terminal, O_RDWR); /* the first one: it is the controlling terminal */
    (void)dup2(inside, STDIN_FILENO);
    (void)sigemptyset(&interrupts);
    (void)sigaddset(&interrupts, SIGINT);
    if (blocks_signals) {
        (void)sigprocmask(SIG_BLOCK, &interrupts, NULL);
    }
    const budget_passphrase_source source = {.fd = -1};
    const base_status status = budget_passphrase_open(&source, &passphrase, NULL);
    _exit(status == BASE_ERR_ABORTED ? INTERRUPTED : 0);
}

static bool echoes(int terminal)
{
    struct termios now;
    assert_int_equal(tcgetattr(terminal, &now), 0);
    return (now.c_lflag & ECHO) != 0;
}

/* Ctrl-C at the prompt: how that ends a process. */
static int interrupt(bool blocks_signals)
{
    int outside = -1;
    int inside = -1; /* stays open, so that the terminal keeps its settings */
    int wait_status = 0;
    char name[64];
    assert_int_equal(openpty(&outside, &inside, name, NULL, NULL), 0);
    assert_true(echoes(inside));
    const pid_t pid = fork();
    if (pid == 0) {
        ask_at(name, blocks_signals);
    }
    const int64_t deadline_ns = base_deadline_after_ns(20 * BASE_NS_PER_S);
    while (echoes(inside) && base_now_ns() < deadline_ns) {
        (void)usleep(1000);
    }
    assert_false(echoes(inside));
    assert_int_equal(write(outside, "\003", 1), 1);
    while (waitpid(pid, &wait_status, WNOHANG) == 0 && base_now_ns() < deadline_ns) {
        (void)usleep(1000);
    }
    (void)kill(pid, SIGKILL);
    assert_true(echoes(inside));
    (void)close(inside);
    (void)close(outside);
    return wait_status;
}

static void an_interrupt_at_the_prompt_leaves_the_terminal_as_it_was(void **state)
{
    (void)state;
    assert_int_equal(unsetenv("CREDENTIALS_DIRECTORY"), 0);
    const int ended = interrupt(false);
    assert_true(WIFSIGNALED(ended) && WTERMSIG(ended) == SIGINT);
    const int returned = interrupt(true); /* as a service has it */
    assert_true(WIFEXITED(returned) && WEXITSTATUS(returned) == INTERRUPTED);
}

static int start(void **state)
{
    (void)state;
    return budget_crypto_init(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_wrapped_key_opens_with_its_passphrase_alone),
        cmocka_unit_test(a_changed_key_file_never_opens),
        cmocka_unit_test(other_people_s_wrapped_keys_open),
        cmocka_unit_test(a_key_of_two_pairs_never_opens),
        cmocka_unit_test(a_key_rests_in_a_file_and_comes_back),
        cmocka_unit_test(a_passphrase_comes_from_where_it_is_said),
        cmocka_unit_test(an_interrupt_at_the_prompt_leaves_the_terminal_as_it_was),
    };
    return cmocka_run_group_tests(tests, start, NULL);
}
