/* The rank's side of the control plane: opening, join, exchange, reports, finish. Called by rank/
 * and collectives/launched on the rank's own thread; thread.c drives the socket. */
#include "proto/client.h"

#include <control.pb-c.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/host.h"
#include "base/thread.h"
#include "client_impl.h"
#include "inherit.h"
#include "proto/body.h"

enum { JOIN_MARGIN_MS = 1000 };

static base_status client_alloc(proto_client **client, base_error *reterr)
{
    proto_client *made = calloc(1, sizeof *made);
    if (made == NULL) {
        return base_fail(reterr, BASE_ERR_MEMORY, "no memory for the control client");
    }
    made->lifeline_fd = -1;
    (void)pthread_mutex_init(&made->lock, NULL);
    base_cond_init(&made->changed);
    made->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    made->outgoing = malloc(PROTO_RANK_MESSAGE_BYTES_MAX);
    made->packing = malloc(PROTO_RANK_MESSAGE_BYTES_MAX);
    if (made->wake_fd < 0 || made->outgoing == NULL || made->packing == NULL ||
        !client_queue_init(&made->queue, PROTO_CLIENT_QUEUE_BYTES)) {
        proto_client_close(made);
        return base_fail(reterr, BASE_ERR_MEMORY, "no memory for the control client");
    }
    *client = made;
    return BASE_OK;
}

base_status proto_client_open(proto_identity *identity, proto_client **client, base_error *reterr)
{
    proto_client *made = NULL;
    base_status status = client_alloc(&made, reterr);
    if (status != BASE_OK) {
        return status;
    }
    proto_inherited inherited = {.lifeline_fd = -1};
    status = proto_inherit(&inherited, reterr);
    made->identity = inherited.identity;
    made->job_bytes = inherited.job_bytes;
    made->job_size = inherited.job_size;
    made->key = inherited.key;
    made->lifeline_fd = inherited.lifeline_fd;
    proto_wipe(&inherited.key, sizeof inherited.key);
    if (status == BASE_OK && made->identity.rank == 0 && made->identity.job.infer.requests) {
        status = client_work_create(&made->work, reterr);
    }
    if (status != BASE_OK) {
        proto_client_close(made);
        return status;
    }
    *identity = made->identity;
    *client = made;
    return BASE_OK;
}

const void *proto_client_job_bytes(const proto_client *client, size_t *size_bytes)
{
    *size_bytes = client->job_size;
    return client->job_bytes;
}

static void wake(proto_client *client)
{
    const uint64_t one = 1;
    (void)!write(client->wake_fd, &one, sizeof one);
}

/* Packs an envelope with this body. Returns its size. */
static size_t pack(proto_client *client, ProtobufCMessage *body)
{
    Ringfence__Control__Envelope envelope = RINGFENCE__CONTROL__ENVELOPE__INIT;
    envelope.version = PROTO_CONTROL_VERSION;
    proto_set_body(&envelope.base, body);
    const size_t size_bytes = ringfence__control__envelope__get_packed_size(&envelope);
    BASE_ASSERT(size_bytes <= PROTO_RANK_MESSAGE_BYTES_MAX);
    return ringfence__control__envelope__pack(&envelope, client->packing);
}

/* Packs the body and queues it. Waits for room as long as the link lives. */
static void enqueue(proto_client *client, ProtobufCMessage *body)
{
    const size_t size_bytes = pack(client, body);
    (void)pthread_mutex_lock(&client->lock);
    while (!client_queue_put(&client->queue, client->packing, size_bytes) &&
           (!client->ended || client->aborted)) {
        (void)pthread_cond_wait(&client->changed, &client->lock);
    }
    (void)pthread_cond_broadcast(&client->changed);
    (void)pthread_mutex_unlock(&client->lock);
    wake(client);
}

/* Waits for *flag, the end of the link or the deadline. The caller holds the lock. */
static base_status wait_for(proto_client *client, const bool *flag, int64_t deadline_ns,
                            base_error *reterr)
{
    while (!*flag && !client->ended) {
        if (!base_cond_wait(&client->changed, &client->lock, deadline_ns) && !*flag &&
            !client->ended) {
            return base_fail(reterr, BASE_ERR_TIMEOUT, "the deadline passed");
        }
    }
    if (*flag) {
        return BASE_OK;
    }
    return base_fail(reterr, client->broken.status, "%s", client->broken.message);
}

static void send_join(proto_client *client, const char *build)
{
    base_host host;
    base_host_get(&host);
    Ringfence__Control__Join join = RINGFENCE__CONTROL__JOIN__INIT;
    join.rank = (uint32_t)client->identity.rank;
    join.world_size = (uint32_t)client->identity.world_size;
    join.pid = getpid();
    join.hostname = host.hostname;
    join.build = (char *)(uintptr_t)build;
    enqueue(client, &join.base);
}

base_status proto_client_join(proto_client *client, const char *build, base_error *reterr)
{
    const int64_t timeout_ms = client->identity.job.parallel.join_timeout_ms + JOIN_MARGIN_MS;
    const int64_t deadline_ns = base_deadline_after_ns(timeout_ms * BASE_NS_PER_MS);
    base_status status =
        proto_bus_connect(&client->key, client->identity.world_size, &client->bus, reterr);
    client->again_until_ns = deadline_ns - JOIN_MARGIN_MS * BASE_NS_PER_MS;
    if (status == BASE_OK) {
        const int failed = pthread_create(&client->thread, NULL, proto_client_thread, client);
        client->thread_started = failed == 0;
        if (failed != 0) {
            status = base_fail_errno(reterr, failed, "cannot start the control thread");
        }
    }
    if (status != BASE_OK) {
        return status;
    }
    send_join(client, build);
    (void)pthread_mutex_lock(&client->lock);
    status = wait_for(client, &client->joined, deadline_ns, reterr);
    (void)pthread_mutex_unlock(&client->lock);
    if (status == BASE_ERR_TIMEOUT) {
        return base_fail(reterr, status, "joining the job at %s: no roster within %" PRId64 " ms",
                         client->key.endpoint, timeout_ms);
    }
    return status == BASE_OK
               ? status
               : base_error_prepend(reterr, status, "joining the job at %s", client->key.endpoint);
}

void proto_client_on_abort(proto_client *client, proto_on_abort on_abort, void *user)
{
    (void)pthread_mutex_lock(&client->lock);
    client->on_abort = on_abort;
    client->on_abort_user = user;
    (void)pthread_mutex_unlock(&client->lock);
}

void proto_client_on_dump(proto_client *client, proto_on_dump on_dump, void *user)
{
    (void)pthread_mutex_lock(&client->lock);
    client->on_dump = on_dump;
    client->on_dump_user = user;
    (void)pthread_mutex_unlock(&client->lock);
}

base_status proto_client_exchange(void *user, const void *mine, void *all, size_t size_bytes,
                                  int64_t deadline_ns, base_error *reterr)
{
    proto_client *client = user;
    if (size_bytes == 0 || size_bytes > PROTO_EXCHANGE_BYTES_MAX) {
        return base_fail(reterr, BASE_ERR_LIMIT, "an exchange of %zu bytes: from 1 to %d allowed",
                         size_bytes, PROTO_EXCHANGE_BYTES_MAX);
    }
    (void)pthread_mutex_lock(&client->lock);
    const uint64_t sequence = ++client->exchange_sequence;
    client->exchange_all = all;
    client->exchange_part_bytes = size_bytes;
    client->exchange_done = false;
    client->exchange_waits = true;
    client->exchange_error.status = BASE_OK;
    (void)pthread_mutex_unlock(&client->lock);

    Ringfence__Control__Exchange exchange = RINGFENCE__CONTROL__EXCHANGE__INIT;
    exchange.sequence = sequence;
    exchange.part.len = size_bytes;
    exchange.part.data = (uint8_t *)(uintptr_t)mine;
    enqueue(client, &exchange.base);

    (void)pthread_mutex_lock(&client->lock);
    base_status status = wait_for(client, &client->exchange_done, deadline_ns, reterr);
    client->exchange_waits = false;
    if (status == BASE_OK && client->exchange_error.status != BASE_OK) {
        status =
            base_fail(reterr, client->exchange_error.status, "%s", client->exchange_error.message);
    }
    (void)pthread_mutex_unlock(&client->lock);
    return status == BASE_OK
               ? status
               : base_error_prepend(reterr, status, "exchange #%" PRIu64 " over the launcher",
                                    sequence);
}

bool proto_client_stop_requested(const proto_client *client)
{
    return atomic_load(&client->stop_requested);
}

bool proto_client_pause_requested(const proto_client *client)
{
    return atomic_load(&client->pause_requested);
}

/* text if it fits, else a copy in `cut` of its first size_bytes - 1 bytes, cut between
 * characters. */
static char *cut_text(char *text, char *cut, size_t size_bytes)
{
    if (strlen(text) < size_bytes) {
        return text;
    }
    size_t length = size_bytes - 1;
    while (length > 0 && ((unsigned char)text[length] & 0xc0) == 0x80) {
        length--;
    }
    memcpy(cut, text, length);
    cut[length] = '\0';
    return cut;
}

void proto_client_ready(proto_client *client, const Ringfence__Control__Ready *ready)
{
    char sentence[PROTO_NAME_BYTES_MAX + 1];
    Ringfence__Control__Ready copy = *ready;
    copy.first_sentence = cut_text(copy.first_sentence, sentence, sizeof sentence);
    enqueue(client, &copy.base);
}

void proto_client_report(proto_client *client, ProtobufCMessage *report)
{
    enqueue(client, report);
}

void proto_client_output(proto_client *client, uint64_t index, const char *text)
{
    static char part[PROTO_TEXT_BYTES_MAX]; /* static, since one thread calls */
    size_t sent = 0;
    Ringfence__Control__Output output = RINGFENCE__CONTROL__OUTPUT__INIT;
    output.index = index;
    do {
        output.text = cut_text((char *)(uintptr_t)text + sent, part, sizeof part);
        const size_t bytes = strlen(output.text);
        sent += bytes;
        /* a text of bytes that are no characters ends, too */
        output.more = text[sent] != '\0' && bytes > 0 &&
                      sent <= PROTO_OUTPUT_BYTES_MAX - PROTO_TEXT_BYTES_MAX;
        enqueue(client, &output.base);
    } while (output.more);
}

void proto_client_gpu(proto_client *client, const Ringfence__Control__Gpu *gpu)
{
    char libraries[PROTO_GPU_TEXT_BYTES_MAX];
    char environment[PROTO_GPU_TEXT_BYTES_MAX];
    Ringfence__Control__Gpu copy = *gpu;
    copy.libraries = cut_text(copy.libraries, libraries, sizeof libraries);
    copy.environment = cut_text(copy.environment, environment, sizeof environment);
    enqueue(client, &copy.base);
}

void proto_client_failed(proto_client *client, const Ringfence__Control__Failed *failed)
{
    char collective[PROTO_REASON_BYTES_MAX + 1];
    char message[PROTO_REASON_BYTES_MAX + 1];
    Ringfence__Control__Failed copy = *failed;
    copy.collective = cut_text(copy.collective, collective, sizeof collective);
    copy.message = cut_text(copy.message, message, sizeof message);
    enqueue(client, &copy.base);
    if (!atomic_exchange(&client->dumped, true)) {
        proto_client_send_flight(client, copy.message, enqueue);
    }
}

bool proto_client_take_work(proto_client *client, proto_work *work)
{
    (void)pthread_mutex_lock(&client->lock);
    const bool taken = client->work != NULL && client_work_take(client->work, work);
    (void)pthread_mutex_unlock(&client->lock);
    return taken;
}

base_status proto_client_wait_work(proto_client *client, int64_t deadline_ns, base_error *reterr)
{
    base_error ended = {.message = ""};
    (void)pthread_mutex_lock(&client->lock);
    BASE_ASSERT(client->work != NULL);
    const base_status status = wait_for(client, &client->work->woken, deadline_ns, &ended);
    client->work->woken = false;
    (void)pthread_mutex_unlock(&client->lock);
    return status == BASE_OK || status == BASE_ERR_TIMEOUT
               ? BASE_OK
               : base_fail(reterr, status, "waiting for requests: %s", ended.message);
}

bool proto_client_event(proto_client *client, ProtobufCMessage *event)
{
    const size_t size_bytes = pack(client, event);
    (void)pthread_mutex_lock(&client->lock);
    client_work *work = client->work;
    BASE_ASSERT(work != NULL);
    const bool may = client_work_may_send(work);
    const bool sent = may && client_queue_put(&client->queue, client->packing, size_bytes);
    work->blocked = work->blocked || (may && !sent);
    work->sent += sent ? 1 : 0;
    (void)pthread_mutex_unlock(&client->lock);
    if (sent) {
        wake(client);
    }
    return sent;
}

base_status proto_client_finish(proto_client *client, const Ringfence__Control__Finished *finished,
                                base_error *reterr)
{
    Ringfence__Control__Finished copy = *finished;
    enqueue(client, &copy.base);
    const int64_t deadline_ns =
        base_deadline_after_ns(client->identity.job.parallel.timeout_ms * BASE_NS_PER_MS);
    (void)pthread_mutex_lock(&client->lock);
    const base_status status = wait_for(client, &client->goodbye, deadline_ns, reterr);
    (void)pthread_mutex_unlock(&client->lock);
    return status == BASE_OK
               ? status
               : base_error_prepend(reterr, status, "waiting for the launcher's goodbye");
}

void proto_client_close(proto_client *client)
{
    if (client == NULL) {
        return;
    }
    if (client->thread_started) {
        (void)pthread_mutex_lock(&client->lock);
        client->closing = true;
        (void)pthread_cond_broadcast(&client->changed);
        (void)pthread_mutex_unlock(&client->lock);
        wake(client);
        (void)pthread_join(client->thread, NULL);
    }
    proto_bus_close(client->bus); /* queued messages leave, for a bounded time */
    base_fd_close(&client->lifeline_fd);
    base_fd_close(&client->wake_fd);
    proto_wipe(&client->key, sizeof client->key);
    client_queue_fini(&client->queue);
    client_work_destroy(client->work);
    free(client->job_bytes);
    free(client->outgoing);
    free(client->packing);
    (void)pthread_cond_destroy(&client->changed);
    (void)pthread_mutex_destroy(&client->lock);
    free(client);
}
