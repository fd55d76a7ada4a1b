/* Hosts for tests of several launchers: network namespaces of this machine, each with a hostname of
 * its own ("host-0", …). Each two are joined by a pair of veth devices. Nothing of it has a name
 * outside, so all goes when the test's process ends. */
#ifndef TEST_HOSTS_H
#define TEST_HOSTS_H

#include <stdbool.h>

#include "program.h"

enum { TEST_HOSTS_MAX = 3 };

/* Makes the hosts. Host i has 10.77.0.(i+1), and fd77::(i+1) towards its neighbours 0 and 1. False
 * where that takes more than this user may do, or programs that are not there. */
bool test_hosts_make(int count);

/* Starts a program on a host, like test_program_start. `hosts_file` is its /etc/hosts; NULL: the
 * machine's. */
void test_hosts_start(test_program *program, int host, const char *hosts_file,
                      const char *const *arguments);

/* Runs a shell's command on a host, and says whether it ended well. */
bool test_hosts_run(int host, const char *command);

/* This thread, and those that it starts, are on a host from now on. -1: not any more. */
void test_hosts_enter(int host);

/* The same for host's program with a pipe as its standard input, which the caller closes. */
int test_hosts_start_fed(test_program *program, int host, const char *const *arguments);

/* The user's cache on a host, below test_shared_directory. */
const char *test_hosts_cache(int host);

/* From now on, hosts other than 0 see an empty directory in place of this one, of a size as for
 * tmpfs. The directory must be there. */
void test_hosts_mount(const char *size, const char *directory);
void test_hosts_unmount_all(void);

/* Limits what host a sends to host b ("10mbit"). False: this machine cannot. */
bool test_hosts_slow(int a, int b, const char *rate);
void test_hosts_fast(int a, int b);

/* Takes the link between two hosts down or up. */
void test_hosts_link(int a, int b, bool up);

/* Joins two hosts by another pair of devices, with these names, which are down and have no address. */
void test_hosts_join_again(int a, const char *at_a, int b, const char *at_b);

/* Fails the test if a socket listens, is connected or has a name in AF_UNIX on one of the hosts. For
 * when nothing runs there any more. */
void test_hosts_assert_no_sockets(int count);

/* For main: 77 where there can be no hosts, with a line that says why; else 0. */
int test_hosts_skip(int count);

#endif
