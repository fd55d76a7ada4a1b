/* Opens a DEALER pair between every two ranks, with CURVE keys checked by ZAP. Called by zmq.c when
 * a context is made and closed. */
#include "transport/zmq/links.h"

#include <errno.h>
#include <sodium.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "core/failure.h"
#include "core/missing.h"
#include "core/rendezvous.h"
#include "core/text.h"
#include "transport/socket/interface.h"
#include "transport/socket/silence.h"
#include "transport/zmq/bind.h"
#include "transport/zmq/descriptors.h"
#include "transport/zmq/frames.h"
#include "transport/zmq/monitor.h"

enum {
    KEY_BYTES = 32,
    JOB_KEY_BYTES = 32,
    KEY_DIGEST_BYTES = 16,
    KEY_TEXT_BYTES = 41,
    ENDPOINT_BYTES = 128,
    POLL_SLICE_MS = 20,
    CURVE_BYTES = 64, /* what encryption adds to a frame, at most */
    FLUSH_MS = 10000,
    FLUSH_FAILED_MS = 100,
    HANDSHAKE_MS = 30000,
    ZAP_FRAMES = 7, /* version, request, domain, address, identity, mechanism, key */
    ZAP_FRAME_BYTES = 256,
};

/* What the exchange carries. */
typedef struct link_record {
    uint8_t public_key[KEY_BYTES];
    uint8_t plain; /* 1: COLL_TCP_AUTH_OFF, no CURVE */
    char address[COLL_ADDRESS_BYTES];
    uint16_t ports[COLL_RANKS_MAX];       /* where this rank listens for each higher one */
    uint8_t key_digest[KEY_DIGEST_BYTES]; /* of the job's key; zeros: it was given none */
} link_record;

typedef struct key_pair {
    uint8_t public_key[KEY_BYTES];
    uint8_t secret_key[KEY_BYTES];
} key_pair;

static coll_status zmq_fail(coll_error *reterr, const char *what)
{
    return coll_fail(reterr, COLL_ERR_IO, "%s: %s", what, zmq_strerror(zmq_errno()));
}

static bool set_int(void *socket, int option, int value)
{
    return zmq_setsockopt(socket, option, &value, sizeof value) == 0;
}

/* CURVE for a socket: server_key is NULL for a listener, which names in its ZAP domain the rank it
 * waits for. */
static bool set_curve(void *socket, const key_pair *keys, const uint8_t *server_key, int peer)
{
    char domain[16];
    (void)snprintf(domain, sizeof domain, "%d", peer);
    if (zmq_setsockopt(socket, ZMQ_CURVE_PUBLICKEY, keys->public_key, KEY_BYTES) != 0 ||
        zmq_setsockopt(socket, ZMQ_CURVE_SECRETKEY, keys->secret_key, KEY_BYTES) != 0) {
        return false;
    }
    if (server_key != NULL) {
        return zmq_setsockopt(socket, ZMQ_CURVE_SERVERKEY, server_key, KEY_BYTES) == 0;
    }
    return set_int(socket, ZMQ_CURVE_SERVER, 1) &&
           zmq_setsockopt(socket, ZMQ_ZAP_DOMAIN, domain, strlen(domain)) == 0;
}

/* Every option of every data socket. A connection is as good as never made again: it is set not to
 * try, a socket that has connected would drop what came before the end and was not read yet. No
 * heartbeats: a stopped process is noticed by the deadline, and one that goes on before it must
 * find its connection. Without keys there is no CURVE. */
static coll_status set_options(void *socket, const key_pair *keys, const uint8_t *server_key,
                               int peer, coll_error *reterr)
{
    const int64_t size_max = COLL_ZMQ_MESSAGE_BYTES_MAX + CURVE_BYTES;
    bool set = set_int(socket, ZMQ_LINGER, 0) && set_int(socket, ZMQ_SNDHWM, COLL_ZMQ_SEND_HWM) &&
               set_int(socket, ZMQ_RCVHWM, COLL_ZMQ_RECEIVE_HWM) &&
               zmq_setsockopt(socket, ZMQ_MAXMSGSIZE, &size_max, sizeof size_max) == 0 &&
               set_int(socket, ZMQ_SNDTIMEO, 0) && set_int(socket, ZMQ_RCVTIMEO, 0) &&
               set_int(socket, ZMQ_IMMEDIATE, 0) && set_int(socket, ZMQ_RECONNECT_IVL, INT32_MAX) &&
               set_int(socket, ZMQ_HANDSHAKE_IVL, HANDSHAKE_MS) &&
               set_int(socket, ZMQ_HEARTBEAT_IVL, 0) && set_int(socket, ZMQ_TCP_KEEPALIVE, 1) &&
               set_int(socket, ZMQ_BACKLOG, 16) && set_int(socket, ZMQ_IPV6, 1);
    set = set && (keys == NULL || set_curve(socket, keys, server_key, peer));
    return set ? COLL_OK : zmq_fail(reterr, "cannot set up a socket");
}

static coll_status get_keys(const coll_context_options *options, key_pair *keys, coll_error *reterr)
{
    if (options->curve_public_key != NULL) {
        memcpy(keys->public_key, options->curve_public_key, KEY_BYTES);
        memcpy(keys->secret_key, options->curve_secret_key, KEY_BYTES);
        return COLL_OK;
    }
    char public_text[KEY_TEXT_BYTES];
    char secret_text[KEY_TEXT_BYTES];
    coll_status status = COLL_OK;
    if (zmq_curve_keypair(public_text, secret_text) != 0 ||
        zmq_z85_decode(keys->public_key, public_text) == NULL ||
        zmq_z85_decode(keys->secret_key, secret_text) == NULL) {
        status = zmq_fail(reterr, "cannot make a CURVE key pair");
    }
    explicit_bzero(secret_text, sizeof secret_text);
    return status;
}

/* A socket for a peer, and the monitor that tells of its end. */
static coll_status make_socket(coll_zmq_links *links, int peer, coll_error *reterr)
{
    links->sockets[peer] = zmq_socket(links->zmq, ZMQ_DEALER);
    if (links->sockets[peer] == NULL) {
        return zmq_fail(reterr, "cannot make a socket");
    }
    return coll_zmq_monitor_open(links->zmq, links->sockets[peer], peer, &links->monitors[peer],
                                 reterr);
}

static coll_status listen_for(coll_zmq_links *links, int peer, const key_pair *keys,
                              link_record *mine, coll_error *reterr)
{
    void *socket = links->sockets[peer];
    coll_status status = set_options(socket, keys, NULL, peer, reterr);
    if (status == COLL_OK) {
        status = coll_zmq_bind(socket, mine->address, &mine->ports[peer], reterr);
    }
    if (status != COLL_OK) {
        return status;
    }
    (void)coll_zmq_monitor_read(links->monitors[peer], 0, links->host_timeout_ns,
                                &links->fds[peer]);
    return COLL_OK;
}

static coll_status connect_to(coll_context *context, coll_zmq_links *links, int peer,
                              const key_pair *keys, const link_record *all, coll_error *reterr)
{
    char endpoint[ENDPOINT_BYTES];
    char address[COLL_ADDRESS_BYTES];
    const link_record *theirs = &all[peer];
    void *socket = links->sockets[peer];
    const coll_status status = set_options(socket, keys, theirs->public_key, peer, reterr);
    if (status != COLL_OK) {
        return status;
    }
    coll_address_reach(all[context->rank].address, theirs->address, address);
    const bool ipv6 = strchr(address, ':') != NULL;
    (void)snprintf(endpoint, sizeof endpoint, ipv6 ? "tcp://[%s]:%u" : "tcp://%s:%u", address,
                   (unsigned)theirs->ports[context->rank]);
    if (coll_address_is_any(theirs->address) ||
        (!coll_context_is_here(context, peer) && coll_address_is_loopback(theirs->address))) {
        char name[128];
        context->unreached = peer;
        coll_context_rank_text(context, peer, name, sizeof name);
        return coll_fail(reterr, COLL_ERR_PEER, "%s listens on %s, which no other host can reach",
                         name, theirs->address);
    }
    if (zmq_connect(socket, endpoint) != 0) {
        return coll_fail(reterr, COLL_ERR_IO, "cannot connect to rank %d at %s: %s", peer, endpoint,
                         zmq_strerror(zmq_errno()));
    }
    return COLL_OK;
}

/* Reads one ZAP request whole; how many frames it had. Frames over the limit are cut. */
static int receive_zap(void *zap, uint8_t (*frames)[ZAP_FRAME_BYTES], size_t *sizes)
{
    int count = 0;
    int more = 1;
    while (more != 0) {
        zmq_msg_t message;
        (void)zmq_msg_init(&message);
        if (zmq_msg_recv(&message, zap, ZMQ_DONTWAIT) < 0) {
            (void)zmq_msg_close(&message);
            return -1;
        }
        if (count < ZAP_FRAMES) {
            const size_t size = zmq_msg_size(&message);
            sizes[count] = size < ZAP_FRAME_BYTES ? size : ZAP_FRAME_BYTES - 1;
            memcpy(frames[count], zmq_msg_data(&message), sizes[count]);
            frames[count][sizes[count]] = 0;
        }
        count++;
        more = zmq_msg_more(&message);
        (void)zmq_msg_close(&message);
    }
    return count;
}

/* Answers which ranks may connect: the domain names a rank, whose key it must be. */
static void answer_zap(const coll_context *context, void *zap, const link_record *all)
{
    uint8_t frames[ZAP_FRAMES][ZAP_FRAME_BYTES];
    size_t sizes[ZAP_FRAMES] = {0};
    const int count = receive_zap(zap, frames, sizes);
    if (count < 0) {
        return;
    }
    bool known = false;
    if (count == ZAP_FRAMES && sizes[6] == KEY_BYTES && sizes[5] == 5 &&
        memcmp(frames[5], "CURVE", 5) == 0) {
        const long rank = strtol((const char *)frames[2], NULL, 10);
        known = rank > context->rank && rank < context->size &&
                memcmp(frames[6], all[rank].public_key, KEY_BYTES) == 0;
    }
    (void)zmq_send(zap, "1.0", 3, ZMQ_SNDMORE | ZMQ_DONTWAIT);
    (void)zmq_send(zap, frames[1], count > 1 ? sizes[1] : 0, ZMQ_SNDMORE | ZMQ_DONTWAIT);
    (void)zmq_send(zap, known ? "200" : "400", 3, ZMQ_SNDMORE | ZMQ_DONTWAIT);
    (void)zmq_send(zap, known ? "" : "not this job's", known ? 0 : 14, ZMQ_SNDMORE | ZMQ_DONTWAIT);
    (void)zmq_send(zap, "", 0, ZMQ_SNDMORE | ZMQ_DONTWAIT);
    (void)zmq_send(zap, "", 0, ZMQ_DONTWAIT);
}

static bool is_hello(void *socket)
{
    coll_frame_head head;
    const int size = zmq_recv(socket, &head, sizeof head, ZMQ_DONTWAIT);
    return size == (int)sizeof head && head.magic == COLL_FRAME_MAGIC &&
           head.kind == COLL_FRAME_HELLO;
}

static coll_status name_missing(coll_context *context, const link_record *all, uint64_t missing,
                                coll_error *reterr)
{
    const coll_rank_addresses addresses = {all[0].address, sizeof all[0]};
    char text[512];
    coll_context_list_ranks(context, missing, &addresses, text, sizeof text);
    context->unreached = __builtin_ctzll(missing);
    return coll_fail(reterr, COLL_ERR_TIMEOUT, "no connection in time to %s", text);
}

/* Whether ranks that have not sent a first frame still can. A listener that has hung up, or that nobody
 * finds, is not connected to again. */
static coll_status check_missing(coll_context *context, coll_zmq_links *links, uint64_t missing,
                                 coll_error *reterr)
{
    for (int peer = 0; peer < context->rank; peer++) {
        if ((missing >> peer & 1) != 0 && coll_zmq_links_is_lost(links, peer)) {
            char name[128];
            context->unreached = peer;
            coll_context_rank_text(context, peer, name, sizeof name);
            return coll_missing_blame(
                context, missing,
                coll_fail(reterr, COLL_ERR_PEER, "%s has hung up, or cannot be reached", name),
                reterr);
        }
    }
    return coll_missing_check(context, missing, context->socks, reterr);
}

/* Answers ZAP and reads first frames until every peer has sent one, and been sent ours: a peer's
 * may be here before ours could leave, and the peer would take whatever we send next for it. A rank
 * that has everybody's needs to answer no more: all ranks that connect to it have been let in. */
static coll_status exchange_hellos(coll_context *context, coll_zmq_links *links,
                                   const link_record *all, int64_t deadline_ns, coll_error *reterr)
{
    const coll_frame_head hello = {.magic = COLL_FRAME_MAGIC, .kind = COLL_FRAME_HELLO};
    const uint64_t all_ranks = UINT64_MAX >> (COLL_RANKS_MAX - context->size);
    uint64_t missing = all_ranks & ~(UINT64_C(1) << context->rank); /* to receive from, */
    uint64_t unsaid = missing;                                      /* and to send to */
    for (;;) {
        zmq_pollitem_t items[COLL_RANKS_MAX + 1] = {{.socket = links->zap, .events = ZMQ_POLLIN}};
        int count = 1;
        for (uint64_t left = missing | unsaid; left != 0; left &= left - 1) {
            const uint64_t bit = left & -left;
            void *socket = links->sockets[__builtin_ctzll(left)];
            if ((unsaid & bit) != 0 &&
                zmq_send(socket, &hello, sizeof hello, ZMQ_DONTWAIT) == (int)sizeof hello) {
                unsaid &= ~bit;
            }
            if ((missing & bit) != 0 && is_hello(socket)) {
                missing &= ~bit;
            }
            if (((missing | unsaid) & bit) != 0) {
                items[count++] = (zmq_pollitem_t){
                    .socket = socket,
                    .events = (short)(ZMQ_POLLIN | ((unsaid & bit) != 0 ? ZMQ_POLLOUT : 0))};
            }
        }
        coll_status status = coll_abort_check(context, reterr);
        if ((missing | unsaid) == 0 || status != COLL_OK) {
            return status;
        }
        if (base_now_ns() >= deadline_ns) {
            return name_missing(context, all, missing | unsaid, reterr);
        }
        const int ready = zmq_poll(items, count, base_deadline_poll_ms(deadline_ns, POLL_SLICE_MS));
        if (ready > 0 && (items[0].revents & ZMQ_POLLIN) != 0) {
            answer_zap(context, links->zap, all);
        }
        status = ready == 0 ? check_missing(context, links, missing, reterr) : COLL_OK;
        if (status != COLL_OK) {
            return status;
        }
    }
}

static coll_status open_zmq(coll_zmq_links *links, bool plain, coll_error *reterr)
{
    if (!plain && zmq_has("curve") == 0) {
        return coll_fail(reterr, COLL_ERR_UNSUPPORTED, "this libzmq has no CURVE");
    }
    links->zmq = zmq_ctx_new();
    links->zap = links->zmq != NULL ? zmq_socket(links->zmq, ZMQ_REP) : NULL;
    if (links->zap == NULL || !set_int(links->zap, ZMQ_LINGER, 0) ||
        zmq_bind(links->zap, "inproc://zeromq.zap.01") != 0) {
        return zmq_fail(reterr, "cannot start ZeroMQ");
    }
    return COLL_OK;
}

/* ZeroMQ's own keys admit ranks. So the job's key only has to be the same: its digest is compared. */
static void digest_key(const uint8_t *job_key, uint8_t digest[KEY_DIGEST_BYTES])
{
    static const char label[] = "ringfence zmq 1: job";
    if (job_key != NULL) {
        (void)crypto_generichash(digest, KEY_DIGEST_BYTES, (const uint8_t *)label, sizeof label,
                                 job_key, JOB_KEY_BYTES);
    }
}

/* Some ranks with CURVE and some without would wait for each other until the deadline. */
static coll_status check_records(const coll_context *context, const link_record *all,
                                 coll_error *reterr)
{
    char one[128];
    char other[128];
    coll_context_rank_text(context, 0, one, sizeof one);
    for (int rank = 1; rank < context->size; rank++) {
        coll_context_rank_text(context, rank, other, sizeof other);
        if (all[rank].plain != all[0].plain) {
            return coll_fail(reterr, COLL_ERR_MISMATCH, "%s wants zmq %s, %s %s", one,
                             all[0].plain != 0 ? "plain" : "encrypted", other,
                             all[rank].plain != 0 ? "plain" : "encrypted");
        }
        if (memcmp(all[rank].key_digest, all[0].key_digest, KEY_DIGEST_BYTES) != 0) {
            return coll_fail(reterr, COLL_ERR_MISMATCH, "%s has another job key than %s", other,
                             one);
        }
    }
    return COLL_OK;
}

/* All are connected: sets the connections to what tcp's are set to. */
static void tune_connections(const coll_context *context, coll_zmq_links *links,
                             const link_record *all)
{
    for (int peer = 0; peer < context->size; peer++) {
        const int listener = peer < context->rank ? peer : context->rank;
        const int other = peer < context->rank ? context->rank : peer;
        if (peer != context->rank) {
            links->suspect[peer] =
                coll_zmq_monitor_read(links->monitors[peer], all[listener].ports[other],
                                      links->host_timeout_ns, &links->fds[peer]) ||
                links->suspect[peer];
        }
    }
}

/* All that this rank needs, and what it tells the others. */
static coll_status prepare(coll_context *context, coll_zmq_links *links,
                           const coll_context_options *options, link_record *mine, key_pair *keys,
                           coll_error *reterr)
{
    const bool plain = mine->plain != 0;
    links->own_rank = context->rank;
    links->host_timeout_ns = context->host_timeout_ns;
    links->encrypted = !plain;
    for (int rank = 0; rank < COLL_RANKS_MAX; rank++) {
        links->fds[rank] = COLL_ZMQ_FD_NONE;
    }
    coll_status status = coll_interface_choose(
        options->interface, options->rendezvous_address,
        coll_identity_reaches_beyond(context->identities, context->size, context->rank),
        mine->address, reterr);
    if (status == COLL_OK) {
        status = coll_zmq_descriptors_check(context->size, reterr);
    }
    if (status == COLL_OK) {
        status = coll_net_open_wake(context->net, reterr);
    }
    if (status == COLL_OK) {
        status = open_zmq(links, plain, reterr);
    }
    if (status == COLL_OK && !plain) {
        status = get_keys(options, keys, reterr);
    }
    memcpy(mine->public_key, keys->public_key, KEY_BYTES);
    for (int peer = 0; status == COLL_OK && peer < context->size; peer++) {
        status = peer != context->rank ? make_socket(links, peer, reterr) : COLL_OK;
        if (status == COLL_OK && peer > context->rank) {
            status = listen_for(links, peer, plain ? NULL : keys, mine, reterr);
        }
    }
    return status;
}

coll_status coll_zmq_links_open(coll_context *context, coll_zmq_links *links,
                                const coll_context_options *options, int64_t deadline_ns,
                                coll_status status, coll_error *reterr)
{
    key_pair keys = {.public_key = {0}};
    const bool plain = options->tcp_auth == COLL_TCP_AUTH_OFF;
    link_record mine = {.plain = plain ? 1 : 0};
    link_record all[COLL_RANKS_MAX];
    digest_key(options->job_key, mine.key_digest);
    if (status == COLL_OK) {
        status = prepare(context, links, options, &mine, &keys, reterr);
    }
    const coll_rendezvous_part part = {options, &mine, all, sizeof mine, deadline_ns, status};
    status = coll_rendezvous(context, &part, reterr);
    for (int rank = 0; status == COLL_OK && rank < context->size; rank++) {
        all[rank].address[COLL_ADDRESS_BYTES - 1] = '\0';
    }
    if (status == COLL_OK) {
        status = check_records(context, all, reterr);
    }
    for (int peer = 0; status == COLL_OK && peer < context->rank; peer++) {
        status = connect_to(context, links, peer, plain ? NULL : &keys, all, reterr);
    }
    if (status == COLL_OK) {
        status = exchange_hellos(context, links, all, deadline_ns, reterr);
    }
    if (status == COLL_OK) {
        tune_connections(context, links, all);
    }
    explicit_bzero(&keys, sizeof keys);
    return status;
}

bool coll_zmq_links_is_silent(const coll_zmq_links *links, int rank)
{
    return links->fds[rank] >= 0 && !links->suspect[rank] &&
           coll_silence_is_over(links->fds[rank], links->host_timeout_ns);
}

bool coll_zmq_links_is_lost(coll_zmq_links *links, int rank)
{
    int events = 0;
    size_t events_bytes = sizeof events;
    links->suspect[rank] = coll_zmq_monitor_read(links->monitors[rank], 0, links->host_timeout_ns,
                                                 &links->fds[rank]) ||
                           links->suspect[rank];
    /* A listener's may have been a stranger's, whom the handshake kept out. Only a socket without
     * its peer takes nothing: credits keep far below what it would hold back. A socket that has
     * connected goes on to take, but it had one connection only. */
    return links->suspect[rank] &&
           (rank < links->own_rank ||
            zmq_getsockopt(links->sockets[rank], ZMQ_EVENTS, &events, &events_bytes) != 0 ||
            (events & ZMQ_POLLOUT) == 0);
}

void coll_zmq_links_close(coll_zmq_links *links, const bool *left, uint64_t doubted)
{
    for (int rank = 0; rank < COLL_RANKS_MAX; rank++) {
        if (links->sockets[rank] != NULL) {
            /* Nobody takes it where there is no connection, and ZeroMQ would wait all the same. */
            const int while_ms = left[rank] || coll_zmq_links_is_lost(links, rank) ? 0
                                 : (doubted >> rank & 1) != 0                      ? FLUSH_FAILED_MS
                                                                                   : FLUSH_MS;
            /* Before its reader goes: ZeroMQ would wait for one forever. */
            (void)zmq_socket_monitor(links->sockets[rank], NULL, 0);
            (void)set_int(links->sockets[rank], ZMQ_LINGER, while_ms);
            (void)zmq_close(links->sockets[rank]);
        }
        if (links->monitors[rank] != NULL) {
            (void)zmq_close(links->monitors[rank]);
        }
    }
    if (links->zap != NULL) {
        (void)zmq_close(links->zap);
    }
    if (links->zmq != NULL) {
        while (zmq_ctx_term(links->zmq) != 0 && zmq_errno() == EINTR) {
        }
    }
}
