/* What the sockets between ranks are set to.
 *
 * Congestion control: one that paces (bbr) holds bytes back by a timer until it has learnt what the
 * path takes, and learns little from collectives, which send in bursts: on short paths that alone
 * made 256 KiB take twice and 1 MiB four times as long. So where the system's choice is one of
 * those, sockets begin with reno, which every kernel lets every program have, and go back to the
 * system's choice once the handshake has shown that the path is no short one. Where that would not
 * be allowed (who may have what is net.ipv4.tcp_allowed_congestion_control), they begin with the
 * system's choice, and take reno if the path turns out to be short. What else a system may have
 * chosen (cubic, dctcp) stays.
 *
 * All is for speed: a system that refuses is slower, not wrong. Thread-safe. */
#ifndef COLL_SRC_TCP_OPTIONS_H
#define COLL_SRC_TCP_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>

enum {
    COLL_TCP_BUFFER_BYTES = 4 * 1024 * 1024, /* asked for each direction; the system cuts it */
    COLL_TCP_SHORT_PATH_US = 1000,           /* round trips up to here make a short path */
};

/* Before a socket connects or listens; accepted sockets have their listener's. */
void coll_tcp_options_fresh(int fd);

/* After the handshake, on both sides. Returns whether the path is a short one. */
bool coll_tcp_options_met(int fd);

/* Whether a congestion control, by its name, paces. */
bool coll_tcp_paces(const char *name);

#endif
