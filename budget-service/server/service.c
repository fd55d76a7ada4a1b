/* The service from its start to its end: opens everything, and runs the loop. Called by the command
 * `serve`. */
#include "service.h"

#include <errno.h>
#include <signal.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zmq.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/lock.h"
#include "base/log.h"
#include "base/path.h"
#include "budget/harden.h"
#include "budget/policy.h"
#include "budget/secret_file.h"
#include "budget/service_files.h"
#include "budget/token.h"
#include "budget/wire.h"

/* Makes DIR/run, 0700 and ours. Somebody who can write to a directory can replace its sockets by
 * their own. */
static base_status open_run_directory(budget_service *service, base_error *reterr)
{
    char path[BASE_PATH_BYTES + 16];
    struct stat directory;
    (void)snprintf(path, sizeof path, "%s/run", service->dir);
    if (mkdir(path, 0700) != 0 && errno != EEXIST) {
        return base_fail_errno(reterr, errno, "cannot make %s", path);
    }
    if (lstat(path, &directory) != 0) {
        return base_fail_errno(reterr, errno, "cannot look at %s", path);
    }
    if (!S_ISDIR(directory.st_mode) || directory.st_uid != geteuid() ||
        (directory.st_mode & 077) != 0) {
        return base_fail(reterr, BASE_ERR_AUTH,
                         "%s: must be a directory of yours that nobody else can enter; run: chmod "
                         "700 %s",
                         path, path);
    }
    base_status status = base_path_join(service->dir, BUDGET_FILE_LOCK, path, reterr);
    if (status == BASE_OK) {
        status = base_lock_file(path, &service->lock_fd, reterr);
    }
    return status == BASE_ERR_BUSY
               ? base_fail(reterr, status, "another service serves %s", service->dir)
               : status;
}

static base_status block_signals(budget_service *service, base_error *reterr)
{
    sigset_t taken;
    (void)sigemptyset(&taken);
    (void)sigaddset(&taken, SIGTERM);
    (void)sigaddset(&taken, SIGINT);
    (void)sigaddset(&taken, SIGHUP);
    (void)sigprocmask(SIG_BLOCK, &taken, NULL);
    (void)signal(SIGPIPE, SIG_IGN);
    service->signal_fd = signalfd(-1, &taken, SFD_CLOEXEC | SFD_NONBLOCK);
    return service->signal_fd >= 0 ? BASE_OK
                                   : base_fail_errno(reterr, errno, "cannot take signals");
}

/* What needs no secret: in this order, so that the hook's process never holds one. */
static base_status prepare(budget_service *service, base_error *reterr)
{
    char policy[BASE_PATH_BYTES];
    base_status status = budget_harden_process(reterr);
    if (status == BASE_OK) {
        status = budget_crypto_init(reterr);
    }
    if (status == BASE_OK) {
        status = open_run_directory(service, reterr);
    }
    if (status == BASE_OK) {
        status = base_path_join(service->dir, BUDGET_FILE_POLICY, policy, reterr);
    }
    if (status == BASE_OK) {
        status = budget_policy_read(policy, &service->policy, reterr);
    }
    if (status == BASE_OK) {
        status = service_hook_start(&service->hook, budget_policy_hook(service->policy), reterr);
    }
    if (status == BASE_OK) {
        status = block_signals(service, reterr);
    }
    return status;
}

static base_status sign_checkpoint(void *context, const void *message, size_t message_bytes,
                                   uint8_t signature[64], char kid[BUDGET_KID_BYTES],
                                   base_error *reterr)
{
    const budget_service *from = context;
    (void)reterr;
    (void)crypto_sign_detached(signature, NULL, message, message_bytes, from->secret);
    memcpy(kid, from->kid, BUDGET_KID_BYTES);
    return BASE_OK;
}

static base_status verify_checkpoint(void *context, const void *message, size_t message_bytes,
                                     const uint8_t signature[64], const char *kid,
                                     base_error *reterr)
{
    const budget_service *from = context;
    const budget_public_key *key = budget_keyring_find(&from->keyring, kid);
    if (key == NULL ||
        crypto_sign_verify_detached(signature, message, message_bytes, key->key) != 0) {
        return base_fail(reterr, BASE_ERR_AUTH, "a checkpoint that no key of the keyring signed");
    }
    return BASE_OK;
}

static base_status unlock(budget_service *service, base_error *reterr)
{
    char path[BASE_PATH_BYTES];
    const budget_signer *signer = &service->options->signer;
    base_status status = base_path_join(service->dir, BUDGET_FILE_KEYRING, path, reterr);
    if (status == BASE_OK) {
        status = budget_keyring_read(path, &service->keyring, reterr);
    }
    if (status == BASE_OK) {
        status = signer->unlock(signer->user, &service->secret, reterr);
    }
    if (status == BASE_OK) {
        budget_paserk_pid(service->secret + BUDGET_SECRET_KEY_BYTES - BUDGET_PUBLIC_KEY_BYTES,
                          service->kid);
        const budget_public_key *key = budget_keyring_find(&service->keyring, service->kid);
        if (key == NULL || key->revoked_at != 0 || key->retired_at != 0) {
            status = base_fail(reterr, BASE_ERR_AUTH,
                               "the signing key %s is not an active key of %s", service->kid, path);
        }
    }
    if (status == BASE_OK) {
        status = service_curve_read(service->dir, &service->curve, reterr);
    }
    return status;
}

static base_status open_ledger(budget_service *service, base_error *reterr)
{
    budget_ledger_options options = {
        .dir = service->dir,
        .signer = {.context = service, .sign = sign_checkpoint, .verify = verify_checkpoint},
        .accept_checkpoint = service->options->accept_checkpoint,
    };
    base_status status = budget_clock_read(&options.clock, reterr);
    service->clock = options.clock;
    return status == BASE_OK ? budget_ledger_open(&options, &service->ledger, reterr) : status;
}

static base_status make_memory(budget_service *service, base_error *reterr)
{
    service->items = calloc(SERVICE_BATCH_MAX, sizeof service->items[0]);
    service->scratch = malloc(BUDGET_MESSAGE_BYTES_MAX);
    if (service->items == NULL || service->scratch == NULL) {
        return base_fail(reterr, BASE_ERR_MEMORY, "no memory for %d questions", SERVICE_BATCH_MAX);
    }
    return proto_arena_init(&service->arena, BUDGET_ARENA_BYTES, reterr);
}

static base_status open_all(budget_service *service, base_error *reterr)
{
    base_status status = prepare(service, reterr);
    if (status == BASE_OK) {
        status = unlock(service, reterr);
    }
    if (status == BASE_OK) {
        status = open_ledger(service, reterr);
    }
    if (status == BASE_OK) {
        service_unheard_load(service);
        status = service_audit_first(service, reterr);
    }
    if (status == BASE_OK) {
        status = make_memory(service, reterr);
    }
    if (status == BASE_OK) {
        status = service_admission_init(&service->admission, reterr);
    }
    if (status == BASE_OK) {
        status = service_sockets_open(service, reterr);
    }
    return status;
}

static base_status publish_endpoints(budget_service *service, base_error *reterr)
{
    budget_service_address address = {0};
    const budget_serve_options *options = service->options;
    memcpy(address.endpoint, service->endpoints[SERVICE_ENDPOINT_ASK], sizeof address.endpoint);
    memcpy(address.redeem_endpoint, service->endpoints[SERVICE_ENDPOINT_REDEEM],
           sizeof address.redeem_endpoint);
    memcpy(address.public_key, service->curve->public_key, sizeof address.public_key);
    const base_status status = budget_service_address_write(service->dir, &address, reterr);
    if (status == BASE_OK && options->ready != NULL) {
        options->ready(options->ready_user, address.endpoint, address.redeem_endpoint);
    }
    return status;
}

/* Waits for a question, a connection, a signal, a deadline. */
static void wait_for_work(budget_service *service)
{
    zmq_pollitem_t items[2 * SERVICE_ENDPOINTS + 1] = {0};
    int wait_ms = base_deadline_poll_ms(service->reaper_due_ns, SERVICE_IDLE_MS);
    for (int i = 0; i < SERVICE_ENDPOINTS; i++) {
        items[2 * i] = (zmq_pollitem_t){.socket = service->sockets[i], .events = ZMQ_POLLIN};
        items[2 * i + 1] =
            (zmq_pollitem_t){.socket = service->connections[i].monitor, .events = ZMQ_POLLIN};
        if (service_connections_count(&service->connections[i]) > 0 &&
            wait_ms > SERVICE_FLOOD_CHECK_MS) {
            wait_ms = SERVICE_FLOOD_CHECK_MS;
        }
    }
    items[2 * SERVICE_ENDPOINTS] = (zmq_pollitem_t){.fd = service->signal_fd, .events = ZMQ_POLLIN};
    (void)zmq_poll(items, sizeof items / sizeof items[0],
                   service_audit_runs(service) ? 0 : wait_ms);
}

/* SIGHUP ends nothing: a stopped service raises no alarm, and whoever sends it to a service wants
 * it to read its files again. */
static void take_signals(budget_service *service)
{
    struct signalfd_siginfo info;
    while (read(service->signal_fd, &info, sizeof info) == (ssize_t)sizeof info) {
        if (info.ssi_signo == SIGHUP) {
            base_log(BASE_LOG_INFO, "SIGHUP: nothing is read again; stop and start the service for "
                                    "a changed policy.json, or for another key");
        } else {
            base_log(BASE_LOG_INFO, "SIG%s from process %u: the service ends",
                     sigabbrev_np((int)info.ssi_signo), info.ssi_pid);
            service->ending = true;
        }
    }
}

static base_status run(budget_service *service, base_error *reterr)
{
    base_status status = BASE_OK;
    while (status == BASE_OK && !service->ending) {
        int count = 0;
        wait_for_work(service);
        take_signals(service);
        service_flood_check(service);
        status = service_batch(service, &count, reterr);
        if (status == BASE_OK && service_audit_runs(service)) {
            status = service_audit_slice(service, reterr);
        }
        if (status == BASE_OK) {
            status = service_reap(service, reterr);
        }
    }
    return status;
}

static void close_all(budget_service *service)
{
    const budget_signer *signer = &service->options->signer;
    service_sockets_close(service);
    service_audit_free(service);
    service_usage_free(service->usage);
    budget_ledger_close(service->ledger);
    if (service->secret != NULL) {
        signer->release(signer->user);
    }
    sodium_free(service->curve);
    service_hook_stop(&service->hook);
    service_unheard_free(service);
    budget_policy_destroy(service->policy);
    service_admission_fini(&service->admission);
    proto_arena_fini(&service->arena);
    for (int i = 0; service->items != NULL && i < SERVICE_BATCH_MAX; i++) {
        service_item_fini(&service->items[i]);
    }
    free(service->items);
    free(service->scratch);
    base_fd_close(&service->signal_fd);
    base_fd_close(&service->lock_fd);
}

base_status budget_serve(const budget_serve_options *options, base_error *reterr)
{
    budget_service *made = calloc(1, sizeof *made);
    base_error own = {0};
    base_error *why = reterr != NULL ? reterr : &own;
    if (made == NULL) {
        return base_fail(reterr, BASE_ERR_MEMORY, "no memory for the service");
    }
    made->options = options;
    made->lock_fd = -1;
    made->signal_fd = -1;
    made->hook.fd = -1;
    base_status status = BASE_OK;
    if (realpath(options->dir, made->dir) == NULL) {
        status = base_fail_errno(why, errno, "cannot open %s", options->dir);
    }
    if (status == BASE_OK) {
        status = budget_trusted_directory_check(made->dir, why);
    }
    if (status == BASE_OK) {
        status = open_all(made, why);
    }
    if (status == BASE_OK) {
        status = publish_endpoints(made, why);
    }
    if (status == BASE_OK) {
        status = run(made, why);
        if (status != BASE_OK && budget_ledger_broken(made->ledger)) {
            base_log(BASE_LOG_ERROR, "%s", why->message);
            _exit(1); /* no destructor may write: what is on disk is not known */
        }
    }
    close_all(made);
    free(made);
    return status;
}
