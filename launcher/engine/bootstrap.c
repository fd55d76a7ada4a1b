/* Gets the launchers of a job each other's keys and the head's address, by whatever there is for
 * that. Called by job/head.c and agent/. */
#include "engine/bootstrap.h"

#include <errno.h>
#include <inttypes.h>
#include <pwd.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/text.h"
#include "proto/digest.h"

enum { HEX_BYTES = 2 * PROTO_KEY_BYTES + 1 };

static const char head_name[] = "ringfence-head";

/* ---- a job key ---- */

static void take_job_key(launch_bootstrap *bootstrap)
{
    const launch_hosts_options *hosts = bootstrap->hosts;
    const int count = hosts->node_rank == 0 ? (int)hosts->nodes : 1;
    (void)snprintf(bootstrap->run_id, sizeof bootstrap->run_id, "%s", bootstrap->key.run_id);
    proto_job_key_node(&bootstrap->key, (int)hosts->node_rank, &bootstrap->own);
    for (int node = 0; node < count; node++) {
        proto_keypair pair;
        proto_job_key_node(&bootstrap->key, node, &pair);
        memcpy(bootstrap->public_keys[node], pair.public_key, PROTO_KEY_BYTES);
        proto_wipe(&pair, sizeof pair);
    }
}

static base_status resolve(launch_bootstrap *bootstrap, const launch_wait *wait, base_error *reterr)
{
    launch_address address;
    base_status status = launch_address_parse(bootstrap->hosts->rendezvous, &address, reterr);
    if (status == BASE_OK && bootstrap->question == NULL) {
        status = base_question_ask(address.host, &bootstrap->question, reterr);
    }
    if (status != BASE_OK) {
        return status;
    }
    status = launch_store_wait(base_question_fd(bootstrap->question), wait, reterr);
    if (status == BASE_ERR_TIMEOUT) {
        return base_fail(reterr, status, "cannot resolve %s: no name server has answered yet",
                         address.host);
    }
    if (status == BASE_OK) {
        bootstrap->port = address.port;
        status = base_question_answer(bootstrap->question, &bootstrap->addresses, reterr);
        base_question_drop(bootstrap->question);
        bootstrap->question = NULL;
    }
    return status;
}

/* ---- the engine's store ---- */

static base_status put_key(const launch_bootstrap *bootstrap, base_error *reterr)
{
    char name[LAUNCH_STORE_KEY_BYTES];
    char hex[HEX_BYTES];
    (void)snprintf(name, sizeof name, "ringfence-key-%" PRId64, bootstrap->hosts->node_rank);
    (void)sodium_bin2hex(hex, sizeof hex, bootstrap->own.public_key, PROTO_KEY_BYTES);
    return bootstrap->kind->put(bootstrap->store, name, hex, reterr);
}

static base_status get_key(const launch_bootstrap *bootstrap, int node, base_error *reterr)
{
    char name[LAUNCH_STORE_KEY_BYTES];
    char hex[LAUNCH_STORE_VALUE_BYTES];
    size_t bytes = 0;
    (void)snprintf(name, sizeof name, "ringfence-key-%d", node);
    const base_status status = bootstrap->kind->get(bootstrap->store, node, name, hex, reterr);
    if (status == BASE_OK && (strlen(hex) != HEX_BYTES - 1 ||
                              sodium_hex2bin(bootstrap->public_keys[node], PROTO_KEY_BYTES, hex,
                                             HEX_BYTES - 1, NULL, &bytes, NULL) != 0)) {
        return base_fail(reterr, BASE_ERR_PEER, "the key of launcher %d is no key", node);
    }
    return status;
}

/* Takes "PORT,ADDRESS,ADDRESS…". */
static base_status take_head(launch_bootstrap *bootstrap, const char *text, base_error *reterr)
{
    char *end = NULL;
    const long port = strtol(text, &end, 10);
    bootstrap->addresses.count = 0;
    while (*end == ',' && bootstrap->addresses.count < BASE_ADDRESSES_MAX) {
        const char *at = end + 1;
        const size_t length = strcspn(at, ",");
        if (length == 0 || length >= BASE_NUMERIC_BYTES) {
            break;
        }
        char *numeric = bootstrap->addresses.numeric[bootstrap->addresses.count++];
        memcpy(numeric, at, length);
        numeric[length] = '\0';
        end = (char *)(uintptr_t)(at + length);
    }
    bootstrap->port = (int)port;
    return port > 0 && port <= UINT16_MAX && bootstrap->addresses.count > 0 && *end == '\0'
               ? BASE_OK
               : base_fail(reterr, BASE_ERR_PEER, "'%.100s' does not say where the head listens",
                           text);
}

static void close_store(launch_bootstrap *bootstrap)
{
    if (bootstrap->store != NULL) {
        bootstrap->kind->close(bootstrap->store);
        bootstrap->store = NULL;
    }
}

/* The run is named after the head's key. */
static void name_run(launch_bootstrap *bootstrap)
{
    uint8_t digest[PROTO_DIGEST_BYTES];
    proto_blake2b256(bootstrap->public_keys[0], PROTO_KEY_BYTES, digest);
    (void)sodium_bin2hex(bootstrap->run_id, sizeof bootstrap->run_id, digest,
                         (PROTO_RUN_ID_BYTES - 1) / 2);
}

static base_status open_store(launch_bootstrap *bootstrap, const launch_wait *wait,
                              base_error *reterr)
{
    const launch_hosts_options *hosts = bootstrap->hosts;
    const int count = hosts->node_rank == 0 ? (int)hosts->nodes : 1;
    proto_keypair_make(&bootstrap->own);
    bootstrap->store = hosts->store;
    base_status status = put_key(bootstrap, reterr);
    if (status == BASE_OK) {
        status = bootstrap->kind->fence(bootstrap->store, wait, reterr);
    }
    for (int node = 0; node < count && status == BASE_OK; node++) {
        status = get_key(bootstrap, node, reterr);
    }
    if (status == BASE_OK) {
        name_run(bootstrap);
    }
    if (status == BASE_OK && hosts->node_rank > 0) {
        char head[LAUNCH_STORE_VALUE_BYTES];
        status = bootstrap->kind->fence(bootstrap->store, wait, reterr);
        if (status == BASE_OK) {
            status = bootstrap->kind->get(bootstrap->store, 0, head_name, head, reterr);
        }
        if (status == BASE_OK) {
            status = take_head(bootstrap, head, reterr);
        }
        close_store(bootstrap);
    }
    return status;
}

/* ---- a file in the home directory ---- */

static base_status name_file(launch_bootstrap *bootstrap, base_error *reterr)
{
    const struct passwd *user = getpwuid(geteuid());
    const char *home = getenv("HOME");
    char directory[BASE_PATH_BYTES];
    home = home != NULL && home[0] == '/' ? home : user != NULL ? user->pw_dir : NULL;
    if (home == NULL) {
        return base_fail(reterr, BASE_ERR_NOTFOUND,
                         "there is no home directory to meet in: give --rendezvous and --job-key");
    }
    (void)snprintf(directory, sizeof directory, "%s/.ringfence", home);
    if (mkdir(directory, 0700) != 0 && errno != EEXIST) {
        return base_fail_errno(reterr, errno, "cannot make %s", directory);
    }
    const int length = snprintf(bootstrap->file, sizeof bootstrap->file, "%s/slurm-%s", directory,
                                bootstrap->hosts->place.step);
    return length < (int)sizeof bootstrap->file
               ? BASE_OK
               : base_fail(reterr, BASE_ERR_LIMIT, "the path of the home directory is too long");
}

static base_status read_file(launch_bootstrap *bootstrap, base_error *reterr)
{
    base_status status = proto_job_key_read(bootstrap->file, &bootstrap->key, reterr);
    if (status == BASE_OK) {
        take_job_key(bootstrap);
        status = take_head(bootstrap, bootstrap->key.head, reterr);
    }
    return status;
}

/* ---- for the head and agents ---- */

base_status launch_bootstrap_open(const launch_hosts_options *hosts, const launch_wait *wait,
                                  launch_bootstrap *bootstrap, base_error *reterr)
{
    *bootstrap = (launch_bootstrap){.hosts = hosts};
    bootstrap->public_keys = calloc((size_t)hosts->nodes, sizeof bootstrap->public_keys[0]);
    if (bootstrap->public_keys == NULL) {
        return base_fail(reterr, BASE_ERR_MEMORY, "no memory for keys");
    }
    if (hosts->job_key[0] != '\0') {
        const base_status status = proto_job_key_read(hosts->job_key, &bootstrap->key, reterr);
        if (status != BASE_OK) {
            return base_error_prepend(reterr, status, "--job-key");
        }
        take_job_key(bootstrap);
        return BASE_OK;
    }
    bootstrap->kind = launch_store_of(hosts->place.engine);
    if (bootstrap->kind != NULL) {
        return open_store(bootstrap, wait, reterr);
    }
    if (hosts->node_rank == 0) {
        proto_job_key_make(&bootstrap->key);
        take_job_key(bootstrap);
    }
    return name_file(bootstrap, reterr);
}

bool launch_bootstrap_has_address(const launch_bootstrap *bootstrap)
{
    return bootstrap->hosts->job_key[0] != '\0';
}

base_status launch_bootstrap_publish(launch_bootstrap *bootstrap, int port, const launch_wait *wait,
                                     base_error *reterr)
{
    char text[PROTO_JOB_KEY_HEAD_BYTES];
    if (launch_bootstrap_has_address(bootstrap)) {
        return BASE_OK;
    }
    launch_address_own(&bootstrap->addresses);
    (void)snprintf(text, sizeof text, "%d", port);
    for (int i = 0; i < bootstrap->addresses.count; i++) {
        base_text_append(text, sizeof text, ",%s", bootstrap->addresses.numeric[i]);
    }
    if (bootstrap->kind == NULL) {
        (void)unlink(bootstrap->file); /* of a step of that name which was killed */
        (void)snprintf(bootstrap->key.head, sizeof bootstrap->key.head, "%s", text);
        return proto_job_key_write(bootstrap->file, &bootstrap->key, reterr);
    }
    base_status status = bootstrap->kind->put(bootstrap->store, head_name, text, reterr);
    if (status == BASE_OK) {
        status = bootstrap->kind->fence(bootstrap->store, wait, reterr);
    }
    close_store(bootstrap);
    return status;
}

base_status launch_bootstrap_locate(launch_bootstrap *bootstrap, const launch_wait *wait,
                                    base_error *reterr)
{
    if (launch_bootstrap_has_address(bootstrap)) {
        return resolve(bootstrap, wait, reterr);
    }
    return bootstrap->kind != NULL ? BASE_OK : read_file(bootstrap, reterr);
}

void launch_bootstrap_withdraw(launch_bootstrap *bootstrap)
{
    if (bootstrap->file[0] != '\0' && bootstrap->hosts->node_rank == 0) {
        (void)unlink(bootstrap->file);
    }
}

void launch_bootstrap_close(launch_bootstrap *bootstrap)
{
    launch_bootstrap_withdraw(bootstrap);
    close_store(bootstrap);
    base_question_drop(bootstrap->question);
    free(bootstrap->public_keys);
    proto_wipe(bootstrap, sizeof *bootstrap);
}
