/* How many processors ranks believe that their host has, whatever it has: they go other ways where
 * each has one of its own than where they share some. For programs that are linked with
 * --wrap=coll_identity_cpus. */
#ifndef TEST_COLL_PROCESSORS_H
#define TEST_COLL_PROCESSORS_H

/* For contexts made from now on; 0: as many as there are. */
void test_processors_claim(int count);

#endif
