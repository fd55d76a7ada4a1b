/* The other ranks of a bootstrap: find rank 0, prove themselves, and wait until all have come. Rank 0 may
 * come later: whatever can be so for that reason is tried again until the deadline. Called by
 * bootstrap.c. */
#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/resolve.h"
#include "bootstrap/bootstrap.h"
#include "transport/socket/options.h"
#include "transport/tcp/listen.h"

enum {
    ADDRESS_S = 5,       /* to connect to one, and for its answer, at most */
    PAUSE_MS = 50,       /* between two tries */
    PAUSE_NAME_MS = 500, /* the same where the name is not known */
    REASON_BYTES = 256,
};

typedef struct joining {
    coll_bootstrap *bootstrap;
    int64_t deadline_ns;
    int64_t address_deadline_ns; /* of the address that is tried now */
    char reason[REASON_BYTES];   /* why the last try failed */
} joining;

typedef enum attempt {
    ATTEMPT_DONE = 0,
    ATTEMPT_AGAIN,  /* m->reason says why */
    ATTEMPT_FAILED, /* *reterr does */
} attempt;

/* Whether one of the events has come; fd -1: none will. */
static bool await(int fd, short events, int64_t until_ns)
{
    struct pollfd item = {.fd = fd, .events = events};
    int count = 0;
    while (count <= 0 && base_now_ns() < until_ns) {
        count = poll(&item, 1, base_deadline_poll_ms(until_ns, COLL_BOOTSTRAP_SLICE_MS));
    }
    return count > 0;
}

static int64_t earlier(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static void pause_for(const joining *m, int ms)
{
    (void)await(-1, 0, earlier(m->deadline_ns, base_deadline_after_ns(ms * BASE_NS_PER_MS)));
}

static attempt again(joining *m, const char *why)
{
    (void)snprintf(m->reason, sizeof m->reason, "%s", why);
    return ATTEMPT_AGAIN;
}

/* "rank 0 at 10.0.0.1 port 29500 ..." */
static attempt fail(const joining *m, coll_status status, const char *why, coll_error *reterr)
{
    (void)coll_fail(reterr, status, "rank %d at %s port %d: %s", m->bootstrap->rank,
                    m->bootstrap->host, m->bootstrap->port, why);
    return ATTEMPT_FAILED;
}

/* ---- connecting ---- */

static attempt finish_connecting(joining *m, int fd)
{
    int error = 0;
    socklen_t error_bytes = sizeof error;
    if (!await(fd, POLLOUT, m->address_deadline_ns)) {
        return again(m, "no answer to the connection");
    }
    if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &error_bytes) != 0 || error != 0) {
        return again(m, strerror(error != 0 ? error : errno));
    }
    return ATTEMPT_DONE;
}

/* *fd is the caller's to close, if it is not negative. */
static attempt connect_to(joining *m, const char *numeric, int *fd, coll_error *reterr)
{
    struct addrinfo *to = NULL;
    attempt result = ATTEMPT_DONE;
    if (coll_tcp_resolve(numeric, (uint16_t)m->bootstrap->port, &to, NULL) != COLL_OK) {
        return again(m, "no numeric address");
    }
    *fd = socket(to->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (*fd < 0 && errno != EAFNOSUPPORT) {
        (void)coll_fail_errno(reterr, errno, "cannot make a socket");
        result = ATTEMPT_FAILED;
    } else if (*fd < 0) {
        result = again(m, strerror(errno));
    } else {
        coll_tcp_options_fresh(*fd, COLL_BOOTSTRAP_HOST_TIMEOUT_NS);
        result =
            connect(*fd, to->ai_addr, to->ai_addrlen) != 0 && errno != EINPROGRESS && errno != EINTR
                ? again(m, strerror(errno))
                : finish_connecting(m, *fd);
    }
    freeaddrinfo(to);
    return result;
}

/* ---- the handshake ---- */

/* Reads rank 0's answer. What does not begin as one is another program's. */
static attempt read_answer(joining *m, int fd, uint8_t answer[COLL_ANSWER_BYTES],
                           coll_error *reterr)
{
    static const uint32_t magics[] = {COLL_BOOTSTRAP_MAGIC, COLL_BOOTSTRAP_REFUSAL};
    size_t got_bytes = 0;
    int whole = 0;
    while (whole == 0) {
        if (!await(fd, POLLIN, m->address_deadline_ns)) {
            return again(m, "it accepts connections, and does not answer");
        }
        whole = coll_handshake_receive(fd, answer, &got_bytes, COLL_ANSWER_BYTES);
        if (whole < 0) {
            return again(m, "it hangs up before its answer");
        }
        if (got_bytes >= sizeof magics[0] && memcmp(answer, &magics[0], sizeof magics[0]) != 0 &&
            memcmp(answer, &magics[1], sizeof magics[1]) != 0) {
            return fail(m, COLL_ERR_PEER, "what listens there is no rank 0 of libcoll", reterr);
        }
    }
    return ATTEMPT_DONE;
}

static attempt fail_refused(const joining *m, const coll_hello *refusal, coll_error *reterr)
{
    char text[REASON_BYTES];
    if (refusal->version != COLL_BOOTSTRAP_VERSION) {
        (void)snprintf(text, sizeof text,
                       "rank 0 speaks version %u of the bootstrap, and this libcoll version %d",
                       (unsigned)refusal->version, COLL_BOOTSTRAP_VERSION);
        return fail(m, COLL_ERR_UNSUPPORTED, text, reterr);
    }
    return fail(m, COLL_ERR_AUTH,
                refusal->auth == 0          ? "rank 0 has no secret, and this rank has one"
                : !m->bootstrap->has_secret ? "rank 0 has a secret, and this rank has none"
                                            : "rank 0 has another secret: is it another job's?",
                reterr);
}

/* Makes the link. */
static attempt shake_hands(joining *m, int *fd, coll_error *reterr)
{
    coll_bootstrap *bootstrap = m->bootstrap;
    uint8_t opening[COLL_OPENING_BYTES];
    uint8_t answer[COLL_ANSWER_BYTES];
    uint8_t proof[COLL_PROOF_BYTES];
    coll_hello own;
    coll_hello theirs;
    coll_bootstrap_hello_make(&own, bootstrap->rank, 0, bootstrap->world_size);
    memcpy(opening, &own, sizeof own);
    coll_hello_tag(bootstrap->link_key, &own, opening + sizeof own);
    if (!coll_handshake_send(*fd, opening, sizeof opening)) {
        return again(m, strerror(errno));
    }
    const attempt result = read_answer(m, *fd, answer, reterr);
    if (result != ATTEMPT_DONE) {
        return result;
    }
    if (memcmp(answer, opening, sizeof opening) == 0) {
        /* A socket that connects to its own host, where nobody listens, may have got that port itself. */
        return again(m, strerror(ECONNREFUSED));
    }
    memcpy(&theirs, answer, sizeof theirs);
    if (theirs.magic == COLL_BOOTSTRAP_REFUSAL) {
        return fail_refused(m, &theirs, reterr);
    }
    if (theirs.rank != 0 || theirs.peer != (uint32_t)bootstrap->rank || theirs.has_aes > 1 ||
        !coll_proof_fits(bootstrap->link_key, true, &own, &theirs, answer + sizeof theirs)) {
        return fail(m, COLL_ERR_AUTH, "what listens there does not know the secret", reterr);
    }
    coll_proof_make(bootstrap->link_key, false, &own, &theirs, proof);
    if (!coll_handshake_send(*fd, proof, sizeof proof)) {
        return again(m, strerror(errno));
    }
    coll_bootstrap_end_text(*fd, true, bootstrap->address);
    bootstrap->links[0] =
        coll_bootstrap_link_create(*fd, 0, bootstrap->link_key, false, &own, &theirs);
    *fd = -1;
    return coll_bootstrap_link_check(bootstrap->links[0], reterr) == COLL_OK ? ATTEMPT_DONE
                                                                             : ATTEMPT_FAILED;
}

/* ---- all of it ---- */

static attempt try_address(joining *m, const char *numeric, coll_error *reterr)
{
    int fd = -1;
    attempt result = connect_to(m, numeric, &fd, reterr);
    if (result == ATTEMPT_DONE) {
        result = shake_hands(m, &fd, reterr);
    }
    if (fd >= 0) {
        (void)close(fd);
    }
    return result;
}

/* The addresses of rank 0's host, as the system knows them now: its name may come later than this rank. */
static attempt resolve(joining *m, base_addresses *addresses, coll_error *reterr)
{
    struct addrinfo *to = NULL;
    base_question *question = NULL;
    base_error error;
    if (coll_tcp_resolve(m->bootstrap->host, 0, &to, NULL) == COLL_OK) { /* it is numeric */
        freeaddrinfo(to);
        addresses->count = 1;
        (void)snprintf(addresses->numeric[0], sizeof addresses->numeric[0], "%.*s",
                       BASE_NUMERIC_BYTES - 1, m->bootstrap->host);
        return ATTEMPT_DONE;
    }
    const base_status status = base_question_ask(m->bootstrap->host, &question, &error);
    if (status != BASE_OK) {
        return fail(m, (coll_status)status, error.message, reterr);
    }
    attempt result = ATTEMPT_DONE;
    if (!await(base_question_fd(question), POLLIN, m->deadline_ns)) {
        result = again(m, "no name server has answered");
    } else if (base_question_answer(question, addresses, &error) != BASE_OK) {
        result = again(m, error.message);
    }
    base_question_drop(question);
    return result;
}

/* When to leave this address for the next of `count`: each has its share of the time. */
static int64_t address_deadline(const joining *m, int count)
{
    const int64_t share_ns = (m->deadline_ns - base_now_ns()) / count;
    return base_deadline_after_ns(earlier(share_ns, ADDRESS_S * BASE_NS_PER_S));
}

/* Another program at one address ends this only if there is one at each: rank 0 may be yet to come to another. */
static attempt try_all(joining *m, coll_error *reterr)
{
    base_addresses addresses = {.count = 0};
    int failed = 0;
    bool refused = false; /* by a rank 0, of this job or another */
    const attempt resolved = resolve(m, &addresses, reterr);
    if (resolved != ATTEMPT_DONE) {
        if (resolved == ATTEMPT_AGAIN) {
            pause_for(m, PAUSE_NAME_MS);
        }
        return resolved;
    }
    for (int i = 0; i < addresses.count; i++) {
        m->address_deadline_ns = address_deadline(m, addresses.count - i);
        const attempt one = try_address(m, addresses.numeric[i], reterr);
        if (one == ATTEMPT_DONE) {
            return one;
        }
        failed += one == ATTEMPT_FAILED;
        refused = refused || (one == ATTEMPT_FAILED && reterr->status != COLL_ERR_PEER);
    }
    if (refused || (failed > 0 && failed == addresses.count)) {
        return ATTEMPT_FAILED;
    }
    pause_for(m, PAUSE_MS);
    return ATTEMPT_AGAIN;
}

coll_status coll_bootstrap_join(coll_bootstrap *bootstrap, int64_t deadline_ns, coll_error *reterr)
{
    joining m = {.bootstrap = bootstrap, .deadline_ns = deadline_ns};
    attempt result = ATTEMPT_AGAIN;
    while (result == ATTEMPT_AGAIN && base_now_ns() < deadline_ns) {
        result = try_all(&m, reterr);
    }
    if (result == ATTEMPT_AGAIN) {
        return coll_fail(reterr, COLL_ERR_TIMEOUT,
                         "rank %d did not find rank 0 at %s port %d in time: %s%s", bootstrap->rank,
                         bootstrap->host, bootstrap->port, m.reason,
                         coll_address_is_loopback(bootstrap->host)
                             ? " (that address is this host itself: is rank 0 on another?)"
                             : "");
    }
    const coll_bootstrap_note note = {.process = bootstrap->process};
    bootstrap->missing = 1;
    coll_status status = result == ATTEMPT_DONE
                             ? coll_bootstrap_link_note(bootstrap->links[0], &note, reterr)
                             : reterr->status;
    if (status == COLL_OK) {
        status = coll_bootstrap_hear(bootstrap, NULL, deadline_ns, reterr);
    }
    return status;
}
