/* A fake device's streams and graphs. Used by fake_device.c, fake_cuda.c and their tests. */
#include "fake_stream.h"

#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"

enum { TASKS_MAX = 1024 };

typedef struct fake_task {
    void (*run)(void *argument);
    void *argument;
    bool keeps; /* the argument is a graph's */
} fake_task;

struct fake_graph {
    int count;
    fake_task tasks[TASKS_MAX];
};

struct fake_stream {
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    fake_task tasks[TASKS_MAX];
    uint64_t put;
    uint64_t done;
    bool ends;
    fake_graph *capture;
};

static void *run_stream(void *argument)
{
    fake_stream *stream = argument;
    (void)pthread_mutex_lock(&stream->lock);
    while (!stream->ends || stream->done < stream->put) {
        if (stream->done == stream->put) {
            (void)pthread_cond_wait(&stream->changed, &stream->lock);
            continue;
        }
        const fake_task task = stream->tasks[stream->done % TASKS_MAX];
        (void)pthread_mutex_unlock(&stream->lock);
        task.run(task.argument);
        if (!task.keeps) {
            free(task.argument);
        }
        (void)pthread_mutex_lock(&stream->lock);
        stream->done++;
        (void)pthread_cond_broadcast(&stream->changed);
    }
    (void)pthread_mutex_unlock(&stream->lock);
    return NULL;
}

fake_stream *fake_stream_create(void)
{
    fake_stream *stream = calloc(1, sizeof *stream);
    BASE_ASSERT(stream != NULL);
    (void)pthread_mutex_init(&stream->lock, NULL);
    (void)pthread_cond_init(&stream->changed, NULL);
    const int failed = pthread_create(&stream->thread, NULL, run_stream, stream);
    BASE_ASSERT(failed == 0);
    return stream;
}

void fake_stream_destroy(fake_stream *stream)
{
    (void)pthread_mutex_lock(&stream->lock);
    stream->ends = true;
    (void)pthread_cond_broadcast(&stream->changed);
    (void)pthread_mutex_unlock(&stream->lock);
    (void)pthread_join(stream->thread, NULL);
    (void)pthread_cond_destroy(&stream->changed);
    (void)pthread_mutex_destroy(&stream->lock);
    free(stream);
}

static void put(fake_stream *stream, fake_task task)
{
    (void)pthread_mutex_lock(&stream->lock);
    BASE_ASSERT(stream->put - stream->done < TASKS_MAX);
    stream->tasks[stream->put++ % TASKS_MAX] = task;
    (void)pthread_cond_broadcast(&stream->changed);
    (void)pthread_mutex_unlock(&stream->lock);
}

void fake_stream_enqueue(fake_stream *stream, void (*run)(void *argument), const void *argument,
                         size_t argument_bytes)
{
    fake_task task = {
        .run = run, .argument = malloc(argument_bytes), .keeps = stream->capture != NULL};
    BASE_ASSERT(task.argument != NULL);
    memcpy(task.argument, argument, argument_bytes);
    if (stream->capture == NULL) {
        put(stream, task);
        return;
    }
    BASE_ASSERT(stream->capture->count < TASKS_MAX);
    stream->capture->tasks[stream->capture->count++] = task;
}

bool fake_stream_idle(fake_stream *stream)
{
    (void)pthread_mutex_lock(&stream->lock);
    const bool idle = stream->done == stream->put;
    (void)pthread_mutex_unlock(&stream->lock);
    return idle;
}

void fake_stream_await(fake_stream *stream)
{
    (void)pthread_mutex_lock(&stream->lock);
    while (stream->done < stream->put) {
        (void)pthread_cond_wait(&stream->changed, &stream->lock);
    }
    (void)pthread_mutex_unlock(&stream->lock);
}

void fake_capture_begin(fake_stream *stream)
{
    stream->capture = calloc(1, sizeof *stream->capture);
    BASE_ASSERT(stream->capture != NULL);
}

fake_graph *fake_capture_end(fake_stream *stream)
{
    fake_graph *graph = stream->capture;
    stream->capture = NULL;
    return graph;
}

bool fake_stream_is_capturing(const fake_stream *stream)
{
    return stream->capture != NULL;
}

void fake_graph_launch(fake_graph *graph, fake_stream *stream)
{
    for (int i = 0; i < graph->count; i++) {
        put(stream, graph->tasks[i]);
    }
}

void fake_graph_destroy(fake_graph *graph)
{
    for (int i = 0; i < graph->count; i++) {
        free(graph->tasks[i].argument);
    }
    free(graph);
}
