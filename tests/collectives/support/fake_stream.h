/* Streams of a fake device: a thread for each does what was enqueued, in order. What is enqueued
 * while a stream is captured stands in a graph instead, and is done with each launch of it. Used by
 * the fake device and by the fake GPU. */
#ifndef TEST_COLL_FAKE_STREAM_H
#define TEST_COLL_FAKE_STREAM_H

#include <stdbool.h>
#include <stddef.h>

typedef struct fake_stream fake_stream;
typedef struct fake_graph fake_graph;

fake_stream *fake_stream_create(void);
/* After all that was enqueued. */
void fake_stream_destroy(fake_stream *stream);

/* run(a copy of the argument) on the stream's thread. */
void fake_stream_enqueue(fake_stream *stream, void (*run)(void *argument), const void *argument,
                         size_t argument_bytes);
/* Whether all that was enqueued has been done; and until it has. */
bool fake_stream_idle(fake_stream *stream);
void fake_stream_await(fake_stream *stream);

void fake_capture_begin(fake_stream *stream);
fake_graph *fake_capture_end(fake_stream *stream);
bool fake_stream_is_capturing(const fake_stream *stream);
void fake_graph_launch(fake_graph *graph, fake_stream *stream);
/* No launch of it is under way. */
void fake_graph_destroy(fake_graph *graph);

#endif
