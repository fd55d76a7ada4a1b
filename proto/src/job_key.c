/* Makes and reads job keys, and derives key pairs from them. Called by the launcher: for
 * make-job-key, by the head and by agents. */
#include "proto/job_key.h"

#include <errno.h>
#include <fcntl.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/bytes.h"
#include "base/file.h"

/* The labels keep the uses of a secret apart. */
static const char head_label[] = "ringfence/head/v1";
static const char agent_label[] = "ringfence/agent/v1";
static const char rank_label[] = "ringfence/rank/v1";

static const char file_format[] = "ringfence job key 1\nrun %s\nseed %s\n%s%s%s";

enum { RUN_BYTES = (PROTO_RUN_ID_BYTES - 1) / 2, SEED_HEX_BYTES = 2 * PROTO_KEY_BYTES + 1 };

static size_t key_text(const proto_job_key *key, char text[PROTO_JOB_KEY_FILE_BYTES_MAX])
{
    char seed[SEED_HEX_BYTES];
    const bool has_head = key->head[0] != '\0';
    (void)sodium_bin2hex(seed, sizeof seed, key->seed, sizeof key->seed);
    const int length = snprintf(text, PROTO_JOB_KEY_FILE_BYTES_MAX, file_format, key->run_id, seed,
                                has_head ? "head " : "", key->head, has_head ? "\n" : "");
    proto_wipe(seed, sizeof seed);
    BASE_ASSERT(length > 0 && length < (int)PROTO_JOB_KEY_FILE_BYTES_MAX);
    return (size_t)length;
}

void proto_job_key_make(proto_job_key *key)
{
    uint8_t run[RUN_BYTES];
    *key = (proto_job_key){.run_id = ""};
    randombytes_buf(run, sizeof run);
    (void)sodium_bin2hex(key->run_id, sizeof key->run_id, run, sizeof run);
    proto_random_key(key->seed);
}

base_status proto_job_key_write(const char *path, const proto_job_key *key, base_error *reterr)
{
    char text[PROTO_JOB_KEY_FILE_BYTES_MAX];
    const int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOCTTY, 0600);
    if (fd < 0) {
        return base_fail_errno(reterr, errno, "cannot make %s", path);
    }
    const size_t text_bytes = key_text(key, text);
    base_status status = base_fd_write(fd, path, text, text_bytes, reterr);
    if (status == BASE_OK && fsync(fd) != 0) {
        status = base_fail_errno(reterr, errno, "cannot write %s", path);
    }
    if (status != BASE_OK) {
        (void)unlink(path);
    }
    (void)close(fd);
    proto_wipe(text, sizeof text);
    return status;
}

/* Whether only this user (or root) can have written the file, and read it. */
static base_status check_owner(int fd, const char *path, base_error *reterr)
{
    struct stat info;
    if (fstat(fd, &info) != 0) {
        return base_fail_errno(reterr, errno, "cannot read %s", path);
    }
    if (!S_ISREG(info.st_mode) || (info.st_mode & 077) != 0) {
        return base_fail(reterr, BASE_ERR_AUTH,
                         "%s: others than its owner may read it (chmod 600 %s)", path, path);
    }
    if (info.st_uid != geteuid() && info.st_uid != 0) {
        return base_fail(reterr, BASE_ERR_AUTH, "%s belongs to another user", path);
    }
    return BASE_OK;
}

/* Takes the hex digits at the text's offset. False if they are none. */
static bool take_hex(const char *text, size_t hex_bytes, uint8_t *bytes, size_t size_bytes)
{
    size_t got = 0;
    return sodium_hex2bin(bytes, size_bytes, text, hex_bytes, NULL, &got, NULL) == 0 &&
           got == size_bytes;
}

/* The file must be exactly what key_text writes. */
static bool parse_key(const char *text, size_t text_bytes, proto_job_key *key)
{
    char again[PROTO_JOB_KEY_FILE_BYTES_MAX];
    uint8_t run[RUN_BYTES];
    const char *run_at = strstr(text, "run ");
    const char *seed_at = strstr(text, "seed ");
    const char *head_at = strstr(text, "\nhead ");
    const char *end = text + text_bytes;
    if (run_at == NULL || seed_at == NULL || end - run_at < 4 + 2 * RUN_BYTES ||
        end - seed_at < 5 + SEED_HEX_BYTES - 1 ||
        !take_hex(run_at + 4, 2 * (size_t)RUN_BYTES, run, sizeof run) ||
        !take_hex(seed_at + 5, SEED_HEX_BYTES - 1, key->seed, sizeof key->seed)) {
        return false;
    }
    (void)sodium_bin2hex(key->run_id, sizeof key->run_id, run, sizeof run);
    if (head_at != NULL) {
        head_at += strlen("\nhead ");
        const size_t head_bytes = strcspn(head_at, "\n");
        if (head_bytes >= sizeof key->head) {
            return false;
        }
        memcpy(key->head, head_at, head_bytes);
    }
    const bool same =
        key_text(key, again) == text_bytes && sodium_memcmp(again, text, text_bytes) == 0;
    proto_wipe(again, sizeof again);
    return same;
}

base_status proto_job_key_read(const char *path, proto_job_key *key, base_error *reterr)
{
    void *text = NULL;
    size_t text_bytes = 0;
    *key = (proto_job_key){.run_id = ""};
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    if (fd < 0) {
        return base_fail_errno(reterr, errno, "cannot open %s", path);
    }
    base_status status = check_owner(fd, path, reterr);
    if (status == BASE_OK) {
        status = base_fd_read(fd, path, PROTO_JOB_KEY_FILE_BYTES_MAX, &text, &text_bytes, reterr);
    }
    if (status == BASE_OK && !parse_key(text, text_bytes, key)) {
        proto_wipe(key, sizeof *key);
        status = base_fail(reterr, BASE_ERR_AUTH,
                           "%s is no job key (launcher make-job-key FILE makes one)", path);
    }
    if (text != NULL) {
        proto_wipe(text, text_bytes);
    }
    free(text);
    (void)close(fd);
    return status;
}

/* A pair from BLAKE2b, under the secret, over label, run id and number. */
static void derive(const uint8_t secret[PROTO_KEY_BYTES], const char *label, const char *run_id,
                   int number, proto_keypair *pair)
{
    uint8_t input[64];
    uint8_t seed[crypto_box_SEEDBYTES];
    base_writer writer = base_writer_make(input, sizeof input);
    base_write_bytes(&writer, label, strlen(label) + 1);
    base_write_bytes(&writer, run_id, strlen(run_id) + 1);
    base_write_u32(&writer, (uint32_t)number);
    BASE_ASSERT(!writer.failed);
    int failed =
        crypto_generichash(seed, sizeof seed, input, writer.offset_bytes, secret, PROTO_KEY_BYTES);
    BASE_ASSERT(failed == 0);
    failed = crypto_box_seed_keypair(pair->public_key, pair->secret_key, seed);
    BASE_ASSERT(failed == 0);
    proto_wipe(seed, sizeof seed);
}

void proto_job_key_node(const proto_job_key *key, int node, proto_keypair *pair)
{
    derive(key->seed, node == 0 ? head_label : agent_label, key->run_id, node, pair);
}

void proto_rank_key(const uint8_t seed[PROTO_KEY_BYTES], int rank, proto_keypair *pair)
{
    derive(seed, rank_label, "", rank, pair);
}
