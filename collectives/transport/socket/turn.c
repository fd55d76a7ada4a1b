/* When frames that were kept to be coalesced leave, and what ends a sleep. Called by tcp.c and zmq.c,
 * and through the tables of all transports over sockets. */
#include <errno.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "ringfence/coll_error.h"
#include "transport/socket/comm.h"

enum { KEEP_POLLS = 128 /* that frames wait where nothing else happens */ };

coll_status coll_net_open_wake(coll_net *net, coll_error *reterr)
{
    net->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    return net->wake_fd >= 0 ? COLL_OK : coll_fail_errno(reterr, errno, "cannot make an eventfd");
}

void coll_net_wake(coll_context *context)
{
    const uint64_t one = 1;
    (void)!write(coll_net_of(context)->wake_fd, &one, sizeof one);
}

void coll_net_note_woken(const coll_net *net)
{
    uint64_t rung = 0;
    (void)!read(net->wake_fd, &rung, sizeof rung);
}

void coll_net_note_kept(coll_net *net, coll_net_when when)
{
    net->keeps_for_turn = net->keeps_for_turn || when == COLL_NET_THIS_TURN;
    if (when == COLL_NET_IDLE) {
        net->keeps_for_idle = true;
        net->polls = 0;
    }
}

void coll_net_flush(coll_context *context)
{
    coll_net *net = coll_net_of(context);
    net->links->flush(context);
    net->keeps_for_turn = false;
    net->keeps_for_idle = false;
}

void coll_net_push(coll_context *context)
{
    if (coll_net_of(context)->keeps_for_turn) {
        coll_net_flush(context);
    }
}

void coll_net_end_poll(coll_context *context)
{
    coll_net *net = coll_net_of(context);
    if (net->keeps_for_idle && ++net->polls > KEEP_POLLS) {
        coll_net_flush(context);
    }
    if (net->watchful) {
        coll_net_look(context);
    }
}

bool coll_net_may_be_silent(coll_net *net)
{
    const int64_t now_ns = base_now_ns();
    const bool due = now_ns >= net->look_ns;
    net->look_ns = due ? now_ns + COLL_SILENCE_LOOK_MS * BASE_NS_PER_MS : net->look_ns;
    return due;
}
