/* Finds the files of a checkpoint, or of adapters, and computes their digest: of each file its name, its length and its
 * bytes, or of a safetensors file its header. Called by pin.c. */
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <nettle/sha2.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/path.h"
#include "base/read_at.h"
#include "base/safetensors_index.h"
#include "proto/pin.h"

enum { BLOCK_BYTES = 16 * 1024 };

static const char index_name[] = "model.safetensors.index.json";

typedef struct checkpoint_digest {
    const char *directory;
    proto_verify verify;
    struct sha256_ctx state;
} checkpoint_digest;

/* What finds the files. */
typedef struct walk {
    const char *directory;
    proto_checkpoint_visit visit;
    void *user;
} walk;

static base_status add_bytes(checkpoint_digest *at, int fd, size_t bytes, base_error *reterr)
{
    uint8_t block[BLOCK_BYTES];
    base_status status = BASE_OK;
    for (size_t done = 0; status == BASE_OK && done < bytes;) {
        const size_t piece = bytes - done < sizeof block ? bytes - done : sizeof block;
        status = base_read_at(fd, done, block, piece, reterr);
        if (status == BASE_OK) {
            sha256_update(&at->state, piece, block);
        }
        done += piece;
    }
    return status;
}

static base_status add_open_file(checkpoint_digest *at, int fd, const char *path, const char *name,
                                 bool tensors, base_error *reterr)
{
    struct stat info;
    if (fstat(fd, &info) != 0 || !S_ISREG(info.st_mode)) {
        return base_fail(reterr, BASE_ERR_IO, "%s: not a regular file", path);
    }
    size_t bytes = (size_t)info.st_size;
    const uint64_t length = htole64(bytes);
    sha256_update(&at->state, strlen(name) + 1, (const uint8_t *)name);
    sha256_update(&at->state, sizeof length, (const uint8_t *)&length);
    base_status status = BASE_OK;
    if (tensors && at->verify == PROTO_VERIFY_INDEX) {
        status = base_safetensors_data_offset(fd, bytes, &bytes, reterr);
    }
    if (status == BASE_OK) {
        status = add_bytes(at, fd, bytes, reterr);
    }
    return status == BASE_OK ? BASE_OK : base_error_prepend(reterr, status, "%s", path);
}

/* Of models in another form than the one that is read. */
static const char *say_what_is_there(const char *directory)
{
    static const char *const others[] = {"pytorch_model.bin", "pytorch_model.bin.index.json"};
    char path[BASE_PATH_BYTES];
    base_error ignored;
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        if (base_path_join(directory, others[i], path, &ignored) == BASE_OK &&
            access(path, F_OK) == 0) {
            return " (pytorch_model.bin is not read: save_pretrained of transformers writes "
                   "safetensors)";
        }
    }
    return "";
}

/* Adds one file of the checkpoint. BASE_ERR_NOTFOUND: there is no such file. */
static base_status add_file(void *user, const char *name, bool tensors, base_error *reterr)
{
    checkpoint_digest *at = user;
    char path[BASE_PATH_BYTES];
    base_status status = base_path_join(at->directory, name, path, reterr);
    if (status != BASE_OK) {
        return status;
    }
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    if (fd < 0) {
        const int why = errno;
        status = base_fail_errno(reterr, why, "cannot open %s%s", path,
                                 why == ENOENT ? say_what_is_there(at->directory) : "");
        return why == ENOENT ? BASE_ERR_NOTFOUND : status;
    }
    status = add_open_file(at, fd, path, name, tensors, reterr);
    (void)close(fd);
    return status;
}

/* Visits every file that the index names, once, in the order of names. */
static base_status visit_indexed(const walk *at, base_error *reterr)
{
    char path[BASE_PATH_BYTES];
    base_safetensors_index index;
    base_status status = base_path_join(at->directory, index_name, path, reterr);
    if (status == BASE_OK) {
        status = base_safetensors_index_open(path, &index, reterr);
    }
    if (status != BASE_OK) {
        return status;
    }
    for (size_t i = 0; i < index.file_count && status == BASE_OK; i++) {
        status = at->visit(at->user, index.files[i].name, true, reterr);
    }
    base_safetensors_index_close(&index);
    return status;
}

base_status proto_checkpoint_walk(const char *directory, proto_checkpoint_visit visit, void *user,
                                  base_error *reterr)
{
    static const char *const optional[] = {"generation_config.json", "tokenizer_config.json",
                                           "chat_template.jinja"};
    const walk at = {.directory = directory, .visit = visit, .user = user};
    base_status status = visit(user, "config.json", false, reterr);
    for (size_t i = 0; status == BASE_OK && i < sizeof optional / sizeof *optional; i++) {
        status = visit(user, optional[i], false, reterr);
        status = status == BASE_ERR_NOTFOUND ? BASE_OK : status;
    }
    if (status != BASE_OK) {
        return status;
    }
    status = visit(user, index_name, false, reterr);
    return status == BASE_OK             ? visit_indexed(&at, reterr)
           : status == BASE_ERR_NOTFOUND ? visit(user, "model.safetensors", true, reterr)
                                         : status;
}

base_status proto_adapter_walk(proto_checkpoint_visit visit, void *user, base_error *reterr)
{
    base_status status = visit(user, "generation_config.json", false, reterr);
    if (status == BASE_OK || status == BASE_ERR_NOTFOUND) {
        status = visit(user, "adapter_config.json", false, reterr);
    }
    return status == BASE_OK ? visit(user, "adapter_model.safetensors", true, reterr) : status;
}

base_status proto_checkpoint_digest(const char *directory, proto_verify verify,
                                    uint8_t digest[PROTO_DIGEST_BYTES], base_error *reterr)
{
    checkpoint_digest at = {.directory = directory, .verify = verify};
    sha256_init(&at.state);
    const base_status status = proto_checkpoint_walk(directory, add_file, &at, reterr);
    if (status == BASE_OK) {
        sha256_digest(&at.state, PROTO_DIGEST_BYTES, digest);
    }
    return status;
}

base_status proto_adapter_digest(const char *directory, uint8_t digest[PROTO_DIGEST_BYTES],
                                 base_error *reterr)
{
    checkpoint_digest at = {.directory = directory, .verify = PROTO_VERIFY_FULL};
    sha256_init(&at.state);
    const base_status status = proto_adapter_walk(add_file, &at, reterr);
    if (status == BASE_OK) {
        sha256_digest(&at.state, PROTO_DIGEST_BYTES, digest);
    }
    return status;
}
