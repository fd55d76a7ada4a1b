/* The options of the sockets between ranks.
 *
 * Congestion control: one that paces (bbr) holds bytes back by a timer until it knows the path.
 * Collectives send in bursts, from which it learns little. On short paths that alone made 256 KiB
 * take twice and 1 MiB four times as long. So where the system's default paces, sockets begin with
 * reno, which every kernel allows every program. They go back to the default if the handshake shows
 * a long path. Where that would not be allowed (net.ipv4.tcp_allowed_congestion_control), they
 * begin with the default, and take reno if the path is short. Any other default (cubic, dctcp)
 * stays.
 *
 * All of this is for speed. If a system refuses an option, the transport is slower, not wrong.
 * Thread safe. */
#ifndef COLL_SRC_TCP_OPTIONS_H
#define COLL_SRC_TCP_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    COLL_TCP_BUFFER_BYTES = 4 * 1024 * 1024, /* asked for each direction; the system cuts it */
    COLL_TCP_SHORT_PATH_US = 1000,           /* round trips up to here make a short path */
};

/* Before a socket connects or listens; accepted sockets have their listener's. host_timeout_ns is for
 * silence.h. */
void coll_tcp_options_fresh(int fd, int64_t host_timeout_ns);

/* After the handshake, on both sides. Returns whether the path is a short one. */
bool coll_tcp_options_met(int fd);

/* Whether a congestion control, by its name, paces. */
bool coll_tcp_paces(const char *name);

#endif
