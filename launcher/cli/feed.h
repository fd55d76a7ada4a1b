/* --prompts -: requests from standard input, a line each, and what becomes of them on standard
 * output. One thread. */
#ifndef LAUNCH_CLI_FEED_H
#define LAUNCH_CLI_FEED_H

#include "launch/feed.h"
#include "launch/options.h"

typedef struct launch_cli_feed launch_cli_feed;

BASE_MUST_CHECK base_status launch_cli_feed_create(const launch_options *options, int fd,
                                                   launch_cli_feed **feed, base_error *reterr);
void launch_cli_feed_destroy(launch_cli_feed *feed); /* NULL is fine */

/* For the job's options. It lives as long as the feed. */
const launch_feed *launch_cli_feed_table(const launch_cli_feed *feed);

#endif
