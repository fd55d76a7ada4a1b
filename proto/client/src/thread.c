/* The control thread: owns the bus, sends what is queued, and handles the launcher's messages.
 * Started by client.c when the rank joins. */
#include <control.pb-c.h>
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/exitcode.h"
#include "base/thread.h"
#include "client_impl.h"

/* The bus's descriptor reports changes, not states. So the thread also looks at an idle bus from
 * time to time, as the launcher does. If a change were ever missed, that would cost a moment and
 * not the job. */
enum { POLL_BUSY_MS = 5, POLL_IDLE_MS = 1000, PAUSE_MS = 20 };
enum { WAKE_LINK = PROTO_BUS_FDS, LIFELINE_LINK, LINKS };

typedef Ringfence__Control__Envelope envelope_type;

/* Ends the link, and gives all who wait the reason. The first reason stays. */
static void end_link(proto_client *client, base_status status, const char *why)
{
    (void)pthread_mutex_lock(&client->lock);
    if (!client->ended) {
        client->ended = true;
        (void)base_fail(&client->broken, status, "%s", why);
    }
    (void)pthread_cond_broadcast(&client->changed);
    (void)pthread_mutex_unlock(&client->lock);
}

static bool closing(proto_client *client)
{
    (void)pthread_mutex_lock(&client->lock);
    const bool result = client->closing;
    (void)pthread_mutex_unlock(&client->lock);
    return result;
}

/* Sets what the rank's thread waits for. */
static void raise_flag(proto_client *client, bool *flag)
{
    (void)pthread_mutex_lock(&client->lock);
    *flag = true;
    (void)pthread_cond_broadcast(&client->changed);
    (void)pthread_mutex_unlock(&client->lock);
}

static void handle_exchanged(proto_client *client, const Ringfence__Control__Exchanged *exchanged)
{
    (void)pthread_mutex_lock(&client->lock);
    if (client->exchange_waits && exchanged->sequence == client->exchange_sequence) {
        uint8_t *all = client->exchange_all;
        const size_t part_bytes = client->exchange_part_bytes;
        if (exchanged->parts[0].len == part_bytes) {
            for (size_t i = 0; i < exchanged->n_parts; i++) {
                memcpy(all + i * part_bytes, exchanged->parts[i].data, part_bytes);
            }
        } else {
            (void)base_fail(&client->exchange_error, BASE_ERR_MISMATCH,
                            "exchange #%" PRIu64 ": parts of %zu bytes, where this rank gave %zu",
                            exchanged->sequence, exchanged->parts[0].len, part_bytes);
        }
        client->exchange_done = true;
        client->exchange_waits = false;
    }
    (void)pthread_cond_broadcast(&client->changed);
    (void)pthread_mutex_unlock(&client->lock);
}

static void send_now(proto_client *client, ProtobufCMessage *body)
{
    base_error ignored;
    (void)!proto_bus_send(client->bus, PROTO_NO_RANK, body, &ignored);
}

/* Sends what is queued. Returns whether all of it was sent. Before the end of the handshake all stays
 * in the queue: what a connection has taken is lost with it. */
static bool send_queued(proto_client *client)
{
    base_error error;
    if (!client->connected) {
        return true;
    }
    for (;;) {
        if (client->unsent_bytes == 0) {
            (void)pthread_mutex_lock(&client->lock);
            client->unsent_bytes =
                client_queue_take(&client->queue, client->outgoing, PROTO_RANK_MESSAGE_BYTES_MAX);
            if (client->work != NULL && client->work->blocked) {
                client->work->blocked = false;
                client->work->woken = true;
            }
            (void)pthread_cond_broadcast(&client->changed); /* there is room */
            (void)pthread_mutex_unlock(&client->lock);
        }
        if (client->unsent_bytes == 0) {
            return true;
        }
        const base_status status = proto_bus_send_packed(
            client->bus, PROTO_NO_RANK, client->outgoing, client->unsent_bytes, &error);
        if (status == BASE_ERR_BUSY) {
            return false;
        }
        if (status != BASE_OK) {
            end_link(client, BASE_ERR_PEER, error.message);
        } else if (!client->said) {
            client->said = true;
            proto_wipe(&client->key.rank, sizeof client->key.rank);
        }
        client->unsent_bytes = 0;
    }
}

/* Waits a moment for the rank to exit by itself, so that it can still report. Returns whether it
 * does. */
static bool await_leaving(proto_client *client)
{
    const int64_t deadline_ns =
        base_deadline_after_ns(PROTO_CLIENT_ABORT_GRACE_MS * BASE_NS_PER_MS);
    bool leaving = false;
    while (!leaving && base_now_ns() < deadline_ns) {
        const bool sent = send_queued(client);
        const int64_t again_ns = base_deadline_after_ns(POLL_BUSY_MS * BASE_NS_PER_MS);
        const int64_t until_ns = !sent && again_ns < deadline_ns ? again_ns : deadline_ns;
        (void)pthread_mutex_lock(&client->lock);
        if (!client->closing && (!sent || client_queue_empty(&client->queue))) {
            (void)base_cond_wait(&client->changed, &client->lock, until_ns);
        }
        leaving = client->closing;
        (void)pthread_mutex_unlock(&client->lock);
    }
    return leaving;
}

/* After an abort, ends the process if the rank does not exit by itself. */
static void handle_abort(proto_client *client, const Ringfence__Control__Abort *abort_message)
{
    if (!atomic_exchange(&client->dumped, true)) {
        proto_client_send_flight(client, abort_message->reason, send_now);
    }
    (void)pthread_mutex_lock(&client->lock);
    client->aborted = !client->ended;
    (void)pthread_mutex_unlock(&client->lock);
    end_link(client, BASE_ERR_ABORTED, abort_message->reason);
    /* held during the call, because the rank may want to remove the callback */
    (void)pthread_mutex_lock(&client->lock);
    if (client->on_abort != NULL) {
        client->on_abort(client->on_abort_user, abort_message->reason);
    }
    (void)pthread_mutex_unlock(&client->lock);
    if (!await_leaving(client)) {
        proto_bus_close(client->bus); /* messages that the bus has taken leave */
        _exit(BASE_EXIT_ERROR);
    }
}

static base_status put_request(proto_client *client, const Ringfence__Control__Request *request,
                               base_error *reterr)
{
    proto_work *incoming = &client->work->incoming;
    incoming->kind = PROTO_WORK_REQUEST;
    const base_status status = proto_request_from_message(request, &incoming->request, reterr);
    return status == BASE_OK ? client_work_put(client->work, reterr) : status;
}

/* Passes work on to the rank's own thread. */
static void handle_work(proto_client *client, const envelope_type *envelope)
{
    base_error error;
    base_status status = BASE_OK;
    (void)pthread_mutex_lock(&client->lock);
    if (client->work == NULL) {
        status = base_fail(&error, BASE_ERR_INVALID,
                           "the launcher sent work to a rank that takes "
                           "none");
    } else if (envelope->body_case == RINGFENCE__CONTROL__ENVELOPE__BODY_REQUEST) {
        status = put_request(client, envelope->request, &error);
    } else if (envelope->body_case == RINGFENCE__CONTROL__ENVELOPE__BODY_CANCEL) {
        status = client_work_put_id(client->work, PROTO_WORK_CANCEL, envelope->cancel->id, &error);
    } else if (envelope->body_case == RINGFENCE__CONTROL__ENVELOPE__BODY_DRAIN) {
        status = client_work_put_id(client->work, PROTO_WORK_DRAIN, 0, &error);
    } else {
        status = client_work_credit(client->work, envelope->credit->events, &error);
    }
    (void)pthread_cond_broadcast(&client->changed);
    (void)pthread_mutex_unlock(&client->lock);
    if (status != BASE_OK) {
        end_link(client, status, error.message);
    }
}

static void handle_stop(proto_client *client)
{
    atomic_store(&client->stop_requested, true);
    (void)pthread_mutex_lock(&client->lock);
    if (client->work != NULL) {
        client->work->woken = true;
    }
    (void)pthread_cond_broadcast(&client->changed);
    (void)pthread_mutex_unlock(&client->lock);
}

static void handle(proto_client *client, const envelope_type *envelope)
{
    switch (envelope->body_case) {
    case RINGFENCE__CONTROL__ENVELOPE__BODY_ROSTER:
        raise_flag(client, &client->joined);
        break;
    case RINGFENCE__CONTROL__ENVELOPE__BODY_EXCHANGED:
        handle_exchanged(client, envelope->exchanged);
        break;
    case RINGFENCE__CONTROL__ENVELOPE__BODY_ABORT:
        handle_abort(client, envelope->abort);
        break;
    case RINGFENCE__CONTROL__ENVELOPE__BODY_STOP:
        handle_stop(client);
        break;
    case RINGFENCE__CONTROL__ENVELOPE__BODY_PAUSE:
        atomic_store(&client->pause_requested, !envelope->pause->withdrawn);
        break;
    case RINGFENCE__CONTROL__ENVELOPE__BODY_REQUEST:
    case RINGFENCE__CONTROL__ENVELOPE__BODY_CANCEL:
    case RINGFENCE__CONTROL__ENVELOPE__BODY_DRAIN:
    case RINGFENCE__CONTROL__ENVELOPE__BODY_CREDIT:
        handle_work(client, envelope);
        break;
    case RINGFENCE__CONTROL__ENVELOPE__BODY_GOODBYE:
        raise_flag(client, &client->goodbye);
        break;
    case RINGFENCE__CONTROL__ENVELOPE__BODY_DUMP:
        proto_client_send_flight(client, "asked for", send_now);
        break;
    default: /* proto_envelope_unpack refuses all others */
        break;
    }
}

static const char not_admitted[] =
    "the launcher closed the connection before the handshake's end: this rank's key is not of its "
    "job, or it has too many connections";

/* The connection has ended before the launcher knew whose it was: perhaps strangers have taken up the
 * room that it has for these. So the rank tries again after a pause, while it may still join. */
static void try_again(proto_client *client)
{
    const int64_t again_ns = base_deadline_after_ns(PAUSE_MS * BASE_NS_PER_MS);
    client->connected = false;
    if (again_ns >= client->again_until_ns) {
        end_link(client, BASE_ERR_AUTH, not_admitted);
    } else {
        client->again_ns = again_ns;
    }
}

static void handle_event(proto_client *client, const proto_bus_event *event)
{
    if (client->again_ns != 0) {
        return; /* one more of that connection */
    }
    switch (event->kind) {
    case PROTO_BUS_CONNECTED:
        client->connected = true;
        break;
    case PROTO_BUS_REFUSED:
        end_link(client, BASE_ERR_AUTH, not_admitted);
        break;
    case PROTO_BUS_CUT:
        try_again(client);
        break;
    case PROTO_BUS_UNREACHABLE:
        end_link(client, BASE_ERR_PEER,
                 "no connection: no launcher listens there, or a firewall stands between");
        break;
    case PROTO_BUS_DISCONNECTED:
        if (client->said) {
            end_link(client, BASE_ERR_PEER, "the launcher has closed the connection");
        } else {
            try_again(client);
        }
        break;
    case PROTO_BUS_ACCEPTED: /* of a side that listens */
        break;
    }
}

/* Handles all messages that have come. */
static void drain(proto_client *client)
{
    proto_bus_event event;
    envelope_type *envelope = NULL;
    base_error error;
    int rank = PROTO_NO_RANK;
    do {
        const base_status status = proto_bus_recv(client->bus, &rank, &envelope, &error);
        if (status != BASE_OK) {
            end_link(client, BASE_ERR_PEER, error.message);
            break;
        }
        if (envelope != NULL) {
            handle(client, envelope);
        }
    } while (envelope != NULL);
    while (proto_bus_next_event(client->bus, &event)) {
        handle_event(client, &event);
    }
}

/* Connects anew. False: there is no bus any more, and the link has ended. */
static bool connect_again(proto_client *client)
{
    base_error error;
    proto_bus_close(client->bus);
    client->bus = NULL;
    client->again_ns = 0;
    const base_status status =
        proto_bus_connect(&client->key, client->identity.world_size, &client->bus, &error);
    if (status != BASE_OK) {
        end_link(client, status, error.message);
    }
    return status == BASE_OK;
}

static int poll_ms(const proto_client *client, bool was_connected, bool sent)
{
    if (client->connected != was_connected) {
        return 0; /* what is queued may leave now */
    }
    return client->again_ns != 0 ? base_deadline_poll_ms(client->again_ns, POLL_IDLE_MS)
           : sent                ? POLL_IDLE_MS
                                 : POLL_BUSY_MS;
}

void *proto_client_thread(void *user)
{
    proto_client *client = user;
    for (;;) {
        struct pollfd links[LINKS];
        const bool end = closing(client);
        const bool was_connected = client->connected;
        if (client->again_ns != 0 && base_now_ns() >= client->again_ns && !connect_again(client)) {
            break;
        }
        proto_bus_polls(client->bus, links);
        links[WAKE_LINK] = (struct pollfd){.fd = client->wake_fd, .events = POLLIN};
        links[LIFELINE_LINK] = (struct pollfd){.fd = client->lifeline_fd, .events = POLLIN};
        const bool sent = send_queued(client);
        drain(client);
        if (end) {
            break;
        }
        if (poll(links, LINKS, poll_ms(client, was_connected, sent)) < 0 && errno != EINTR) {
            end_link(client, BASE_ERR_IO, "cannot wait for the launcher");
            break;
        }
        if (links[LIFELINE_LINK].revents != 0) {
            _exit(BASE_EXIT_ERROR); /* the launcher has died: there is nobody to report to */
        }
        if (links[WAKE_LINK].revents != 0) {
            uint64_t count = 0;
            (void)!read(client->wake_fd, &count, sizeof count);
        }
    }
    return NULL;
}
