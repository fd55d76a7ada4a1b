/* Whether the host of a peer still answers.
 *
 * If a cable is pulled, or a firewall begins to drop packets, no connection ends: TCP sends its data
 * again for a quarter of an hour. But a host that lives acknowledges whatever it is sent, also while
 * the peer's process computes, or is stopped. So a connection is lost if no acknowledgement and no
 * data have come for the host timeout, and some tries since then were in vain. The kernel counts
 * both (TCP_INFO). It probes a connection that is idle (keepalive).
 *
 * TCP_USER_TIMEOUT would do this in the kernel, and more than this: since Linux 5.11 it also ends
 * the connection to a peer that lives and whose buffer has been full for so long, as that of a
 * stopped process is. Such a peer answers the kernel's probes, so it is not silent here. */
#ifndef COLL_SRC_SILENCE_H
#define COLL_SRC_SILENCE_H

#include <stdbool.h>
#include <stdint.h>

#include "coll/coll.h"

/* Lets the kernel probe the connection while it is idle. Before a socket connects or listens:
 * accepted sockets have their listener's. */
void coll_silence_probe(int fd, int64_t host_timeout_ns);

/* Whether the other host has been silent for the timeout. False for what is no TCP connection. */
bool coll_silence_is_over(int fd, int64_t host_timeout_ns);

/* The connection to a peer (a rank of the context) is lost for that reason, which the message says.
 * The caller closes fd. */
void coll_silence_lose(coll_context *context, int peer, int fd);

#endif
