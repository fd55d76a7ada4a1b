/* The inside of net.h, for the files that make it up: net.c (flags, communicators, what frames
 * mean), stream.c (data and credit), fail.c (failures, and peers that leave). */
#ifndef COLL_SRC_NET_COMM_H
#define COLL_SRC_NET_COMM_H

#include "transport/socket/net.h"

/* A stream from a peer, and one to it. */
typedef struct coll_net_stream {
    uint8_t *buffers;                  /* COLL_NET_CREDITS bodies; NULL before the first */
    uint8_t *bodies[COLL_NET_CREDITS]; /* of the frames by turns: one of buffers, or a target */
    void *loans[COLL_NET_CREDITS];     /* of bodies that the links have lent; else NULL */
    uint32_t bytes[COLL_NET_CREDITS];  /* of each body */
    unsigned buffer;                   /* that the newest frame lies in */
    uint8_t *target;                   /* where the next frames belong, if they are this word's */
    size_t target_bytes;
    uint64_t target_word;
    bool body_found;      /* of a frame that has not been committed yet */
    uint64_t received;    /* frames put into the buffers, */
    uint64_t taken;       /* taken out of them, */
    uint64_t credit_sent; /* and reported to the peer as taken */
    uint64_t sent;
    uint64_t sent_taken; /* by the peer, as far as it has reported */
} coll_net_stream;

typedef struct coll_net_comm {
    coll_flag (*flags)[COLL_FLAG_COUNT];       /* of every rank of the communicator */
    coll_net_stream (*streams)[COLL_CHANNELS]; /* by rank in the communicator */
    uint8_t *payloads;                 /* of every rank: inline_bytes for each of its flags */
    uint64_t newest[COLL_RANKS_MAX];   /* operation of each that its flags have shown here, */
    uint64_t least;                    /* and at least so much all of them */
    uint64_t gave[COLL_RANKS_MAX];     /* newest operation that each took something of, */
    uint64_t let_go[COLL_RANKS_MAX];   /* and whose flag was not kept back */
    uint64_t given[COLL_RANKS_MAX];    /* bytes handed over for each, up to an operation's last */
    uint64_t messages[COLL_RANKS_MAX]; /* and up to a message's */
    uint8_t *notice; /* the failure notice that this rank has yet to come to: its frame's body */
    size_t notice_bytes;
    int notice_from;
    uint64_t waits[COLL_RANKS_MAX]; /* what each has said that it waits for, a bit for each rank */
    uint64_t failed_at;             /* the operation that the failure is about; 0: none */
    int64_t differs_ns;             /* since when a peer has made another one (lists.c); 0 */
    uint8_t *sending;               /* a body between send_begin and send_end */
} coll_net_comm;

static inline coll_net *coll_net_of(const coll_context *context)
{
    return context->net;
}

/* Whether one of the communicators that were noted last, gone or blamed, has this id. */
static inline bool coll_net_is_noted(const uint64_t noted[COLL_GONE_MAX], uint64_t comm_id)
{
    int i = 0;
    while (i < COLL_GONE_MAX && noted[i] != comm_id) {
        i++;
    }
    return i < COLL_GONE_MAX;
}

/* From now on the links write nothing into the communicator's memory. */
static inline void coll_net_forget(coll_comm *comm)
{
    const coll_net_links *links = coll_net_of(comm->context)->links;
    if (links->forget != NULL) {
        links->forget(comm->context, comm);
    }
}

/* The rank in the communicator of a context's rank; -1. */
int coll_net_rank_in(const coll_comm *comm, int context_rank);

/* Fills in what every head of a frame to a rank of the communicator has, and sends it. */
void coll_net_send_frame(coll_comm *comm, int peer, coll_frame_head *head, const void *body,
                         coll_net_when when);

/* Room for the body of a data frame, unless it is to be lent. COLL_NET_BAD: there is no credit.
 * COLL_NET_DROP: no memory, and the communicator has failed. */
coll_net_verdict coll_net_stream_find_body(coll_comm *comm, int peer, const coll_frame_head *head,
                                           uint8_t **body);
/* Keeps a lent body as the next frame's. */
void coll_net_stream_lend(coll_comm *comm, int peer, const coll_frame_head *head, uint8_t *body,
                          void *loan);
/* Gives back what the streams from a peer still hold. */
void coll_net_stream_close(coll_comm *comm, int peer);
/* The frame's body is there. */
void coll_net_stream_commit(coll_comm *comm, int peer, const coll_frame_head *head);
/* Takes the peer's count of taken frames; false if it claims more than were sent. */
bool coll_net_take_credit(coll_comm *comm, int peer, const coll_frame_head *head);

/* Whether the body of a frame about a failure has a size that one can have. */
bool coll_net_failure_is_sound(const coll_frame_head *head);
/* The status in such a body. */
int32_t coll_net_failure_status(const uint8_t *body);
/* Takes the failure of a rank of the communicator, now or when this rank has come to it. */
void coll_net_receive_failure(coll_comm *comm, int peer, const uint8_t *body, size_t body_bytes);
/* Called while op waits for the ranks that make its communicator. Fails it if one of them makes
 * another one meanwhile, of a list that this rank is in: then neither would come to the other's. */
void coll_net_compare_lists(coll_op *op);
/* Peer, a rank of the context, says nothing any more. */
void coll_net_mark_left(coll_context *context, int peer);

#endif
