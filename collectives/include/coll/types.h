/* What operations, their elements and their ways may be, and the names of these. coll.h includes it.
 * Pure; any thread. */
#ifndef COLL_TYPES_H
#define COLL_TYPES_H

#include <stddef.h>

#include "coll/status.h"

#if defined(__GNUC__)
#pragma GCC visibility push(default)
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* n: ranks of the communicator; count: elements. An operation is in place where send is the place
 * in recv (or recv the place in send) at which this rank's own elements stand. A buffer that a rank
 * has no use for is neither read nor written, and may be NULL. Kinds with n × count have a variable
 * form, in which ranks have counts of their own: coll_op_desc.counts. */
typedef enum coll_kind {
    COLL_ALL_REDUCE = 1, /* send count, recv count; in place: send == recv */
    /* send count, at root only; recv count, at the root too: written there as well, unless it is
     * NULL or send */
    COLL_BROADCAST = 2,
    COLL_ALL_GATHER = 3, /* send count, recv n × count; in place: send == recv + rank × count */
    COLL_BARRIER = 4,    /* no buffers */
    COLL_REDUCE = 5,     /* send count; recv count, at root only; in place: send == recv */
    COLL_REDUCE_SCATTER = 6, /* send n × count, recv count; in place: recv == send + rank × count */
    COLL_GATHER = 7,         /* send count; recv n × count, at root only */
    COLL_SCATTER = 8,        /* send n × count, at root only; recv count */
    COLL_ALL_TO_ALL = 9,     /* send n × count, recv n × count; in place: send == recv */
    COLL_SEND = 10,          /* send count to `root`; matched by its COLL_RECEIVE in order */
    COLL_RECEIVE = 11,       /* recv count from `root` */
    /* Prefixes: rank r gets what an all-reduce of ranks 0 ... r gives, exclusive of ranks
     * 0 ... r - 1, in the canonical order; by ring and tree added up from the left, ((r0+r1)+r2)+r3.
     * send count, recv count; in place: send == recv. No averages. An exclusive one gives rank 0 the
     * operation's neutral element: 0, of products 1, of and all bits, of min the largest value
     * (infinity of floats), of max the smallest. */
    COLL_SCAN = 12,
    COLL_EXSCAN = 13,
    COLL_KIND_LAST = COLL_EXSCAN,
} coll_kind;

typedef enum coll_type {
    COLL_FLOAT32 = 1,
    COLL_FLOAT64 = 2,
    COLL_INT32 = 3,
    COLL_INT64 = 4,
    COLL_UINT8 = 5,
    COLL_FLOAT16 = 6,  /* IEEE binary16 */
    COLL_BFLOAT16 = 7, /* the upper half of a float32 */
    COLL_INT8 = 8,
    COLL_UINT64 = 9,
    COLL_UINT32 = 10,
    COLL_TYPE_LAST = COLL_UINT32,
} coll_type;

typedef enum coll_reduce_op {
    COLL_SUM = 1,
    COLL_MIN = 2,
    COLL_MAX = 3,
    COLL_PRODUCT = 4,
    COLL_AVERAGE = 5, /* the sum divided by n, once, at the end; integers truncate toward zero */
    COLL_AND = 6,     /* bit by bit, as the next two; integers only, on CPU only */
    COLL_OR = 7,
    COLL_XOR = 8,
    COLL_REDUCE_OP_LAST = COLL_XOR,
} coll_reduce_op;

typedef enum coll_algorithm {
    COLL_ALGORITHM_AUTO = 0,
    COLL_ALGORITHM_RING = 1,
    COLL_ALGORITHM_TREE = 2,
    COLL_ALGORITHM_DIRECT = 3,
    COLL_ALGORITHM_RECURSIVE_DOUBLING = 4,
    COLL_ALGORITHM_HALVING_DOUBLING = 5,
    COLL_ALGORITHM_TWO_LEVEL = 6,
    COLL_ALGORITHM_LAST = COLL_ALGORITHM_TWO_LEVEL, /* of those that run on CPU */
    /* The backend's own, whatever its order of combining; for operations on streams only. These
     * have NATIVE, and DIRECT: sums, products and averages in the canonical order. AUTO is DIRECT
     * for what combines, else NATIVE. Its number leaves room for those that run on CPU. */
    COLL_ALGORITHM_NATIVE = 64,
} coll_algorithm;

typedef enum coll_transport {
    COLL_TRANSPORT_AUTO = 0, /* shm between ranks of one host, tcp between hosts */
    COLL_TRANSPORT_SHM = 1,
    COLL_TRANSPORT_ZMQ = 2,
    COLL_TRANSPORT_TCP = 3,
    COLL_TRANSPORT_LAST = COLL_TRANSPORT_TCP,
} coll_transport;

/* What a frame of the tcp transport carries beside its bytes. The zmq transport knows two of these:
 * with OFF its bytes are plain and whoever connects is let in; else, and so by default, they are
 * encrypted with CURVE and only the job's ranks get in. */
typedef enum coll_tcp_auth {
    COLL_TCP_AUTH_MAC = 0,     /* a MAC over contents and sequence, keyed per connection */
    COLL_TCP_AUTH_ENCRYPT = 1, /* authenticated encryption */
    COLL_TCP_AUTH_OFF = 2,     /* checked for order and length only */
} coll_tcp_auth;

/* Names as on command lines; "?" of what is none. */
const char *coll_kind_name(coll_kind kind); /* "all_reduce", "alltoall", …: as in nccl-tests */
const char *coll_type_name(coll_type type); /* "float", "double", "half", "bfloat16", "int8", … */
const char *coll_reduce_op_name(coll_reduce_op op); /* "sum", "prod", "min", "avg", "and", … */
const char *coll_algorithm_name(coll_algorithm algorithm); /* "auto", "ring", … */
const char *coll_transport_name(coll_transport transport); /* "auto", "shm", … */
const char *coll_tcp_auth_name(coll_tcp_auth auth);        /* "mac", "encrypt", "off" */

/* The other direction. COLL_ERR_INVALID: unknown; the message lists the known ones. */
COLL_MUST_CHECK coll_status coll_kind_parse(const char *name, coll_kind *kind, coll_error *reterr);
COLL_MUST_CHECK coll_status coll_type_parse(const char *name, coll_type *type, coll_error *reterr);
COLL_MUST_CHECK coll_status coll_reduce_op_parse(const char *name, coll_reduce_op *op,
                                                 coll_error *reterr);
COLL_MUST_CHECK coll_status coll_algorithm_parse(const char *name, coll_algorithm *algorithm,
                                                 coll_error *reterr);
COLL_MUST_CHECK coll_status coll_transport_parse(const char *name, coll_transport *transport,
                                                 coll_error *reterr);
COLL_MUST_CHECK coll_status coll_tcp_auth_parse(const char *name, coll_tcp_auth *auth,
                                                coll_error *reterr);

/* Bytes of an element; 0 of what is no type. */
size_t coll_type_size_bytes(coll_type type);

#ifdef __cplusplus
}
#endif

#if defined(__GNUC__)
#pragma GCC visibility pop
#endif

#endif
