/* Ranks of one machine that pass for those of several: linked with --wrap of coll_identity_get,
 * coll_interface_choose and coll_address_is_loopback. */
#ifndef TEST_OTHER_HOSTS_H
#define TEST_OTHER_HOSTS_H

/* The host of this thread's rank, from 0. */
extern _Thread_local int other_host_here;

#endif
