/* Merges equal output lines of several ranks, and puts the ranks' numbers before each line. watch.c
 * feeds it from the ranks' pipes, and job_run.c flushes it and prints the lines. */
#include "job/lines.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/clock.h"
#include "launch/limits.h"

enum { STREAMS = 2, PREFIX_BYTES_MAX = 256 };

/* A line that is held back because other ranks may still write it. */
typedef struct held_line {
    int fd;
    int64_t due_ns;
    int rank_count;
    uint8_t *ranks; /* (ranks) 1: has written it */
    size_t size_bytes;
    char *text;
} held_line;

/* The unfinished line of one rank's stream. */
typedef struct part_line {
    size_t size_bytes;
    char text[LAUNCH_LINE_BYTES_MAX];
} part_line;

struct launch_lines {
    int ranks;
    launch_lines_print print;
    void *user;
    part_line *parts; /* (ranks × STREAMS) */
    int held_count;
    held_line held[LAUNCH_LINES_WAITING_MAX]; /* in order */
};

base_status launch_lines_create(int ranks, launch_lines_print print, void *user,
                                launch_lines **lines, base_error *reterr)
{
    launch_lines *made = calloc(1, sizeof *made);
    part_line *parts = calloc((size_t)ranks * STREAMS, sizeof *parts);
    if (made == NULL || parts == NULL) {
        free(made);
        free(parts);
        return base_fail(reterr, BASE_ERR_MEMORY, "no memory for the ranks' output");
    }
    made->ranks = ranks;
    made->print = print;
    made->user = user;
    made->parts = parts;
    *lines = made;
    return BASE_OK;
}

/* "[rank 3] " or "[ranks 0-2,5] ". */
static size_t write_prefix(const launch_lines *lines, const held_line *line, char *prefix)
{
    size_t length =
        (size_t)snprintf(prefix, PREFIX_BYTES_MAX, line->rank_count == 1 ? "[rank " : "[ranks ");
    bool first = true;
    for (int rank = 0; rank < lines->ranks; rank++) {
        if (line->ranks[rank] == 0) {
            continue;
        }
        int last = rank;
        while (last + 1 < lines->ranks && line->ranks[last + 1] != 0) {
            last++;
        }
        const size_t room = PREFIX_BYTES_MAX - length;
        const char *comma = first ? "" : ",";
        if (room < 32) {
            length += (size_t)snprintf(prefix + length, room, ",...");
            break;
        }
        if (last == rank) {
            length += (size_t)snprintf(prefix + length, room, "%s%d", comma, rank);
        } else {
            const char *to = last == rank + 1 ? "," : "-";
            length += (size_t)snprintf(prefix + length, room, "%s%d%s%d", comma, rank, to, last);
        }
        rank = last;
        first = false;
    }
    length += (size_t)snprintf(prefix + length, PREFIX_BYTES_MAX - length, "] ");
    return length;
}

static void print_first(launch_lines *lines)
{
    held_line *line = &lines->held[0];
    char whole[LAUNCH_LINE_BYTES_MAX + PREFIX_BYTES_MAX];
    const size_t prefix_bytes = write_prefix(lines, line, whole);
    memcpy(whole + prefix_bytes, line->text, line->size_bytes);
    lines->print(lines->user, line->fd, whole, prefix_bytes + line->size_bytes);
    free(line->ranks);
    lines->held_count--;
    memmove(&lines->held[0], &lines->held[1], (size_t)lines->held_count * sizeof lines->held[0]);
}

void launch_lines_flush(launch_lines *lines, int64_t now_ns)
{
    while (lines->held_count > 0 &&
           (lines->held[0].due_ns <= now_ns || lines->held[0].rank_count == lines->ranks)) {
        print_first(lines);
    }
}

int64_t launch_lines_deadline_ns(const launch_lines *lines)
{
    return lines->held_count > 0 ? lines->held[0].due_ns : BASE_NO_DEADLINE;
}

/* The held line that this one can join: it has the same text, this rank has not written it yet, and
 * it comes after every line of this rank that is held back. */
static held_line *find_same(launch_lines *lines, int rank, int fd, const part_line *part)
{
    held_line *found = NULL;
    for (int i = lines->held_count - 1; i >= 0; i--) {
        held_line *line = &lines->held[i];
        if (line->ranks[rank] != 0) {
            break;
        }
        if (line->fd == fd && line->size_bytes == part->size_bytes &&
            memcmp(line->text, part->text, part->size_bytes) == 0) {
            found = line;
        }
    }
    return found;
}

static void line_done(launch_lines *lines, int rank, int fd, int64_t now_ns)
{
    part_line *part = &lines->parts[rank * STREAMS + fd - 1];
    held_line *same = find_same(lines, rank, fd, part);
    if (same == NULL) {
        if (lines->held_count == LAUNCH_LINES_WAITING_MAX) {
            print_first(lines);
        }
        uint8_t *block = calloc(1, (size_t)lines->ranks + part->size_bytes + 1);
        if (block == NULL) {
            part->size_bytes = 0; /* without memory a line is lost, but the job goes on */
            return;
        }
        same = &lines->held[lines->held_count++];
        *same = (held_line){
            .fd = fd,
            .due_ns = now_ns + LAUNCH_LINE_WINDOW_MS * BASE_NS_PER_MS,
            .ranks = block,
            .size_bytes = part->size_bytes,
            .text = (char *)block + lines->ranks,
        };
        memcpy(same->text, part->text, part->size_bytes);
    }
    same->ranks[rank] = 1;
    same->rank_count++;
    part->size_bytes = 0;
    launch_lines_flush(lines, now_ns);
}

void launch_lines_add(launch_lines *lines, int rank, int fd, const char *data, size_t size_bytes,
                      int64_t now_ns)
{
    BASE_ASSERT(rank >= 0 && rank < lines->ranks);
    BASE_ASSERT(fd == 1 || fd == 2);
    part_line *part = &lines->parts[rank * STREAMS + fd - 1];
    for (size_t i = 0; i < size_bytes; i++) {
        if (data[i] == '\n') {
            line_done(lines, rank, fd, now_ns);
            continue;
        }
        if (part->size_bytes == LAUNCH_LINE_BYTES_MAX) {
            line_done(lines, rank, fd, now_ns);
        }
        part->text[part->size_bytes++] = data[i];
    }
}

void launch_lines_end(launch_lines *lines, int rank, int fd, int64_t now_ns)
{
    if (lines->parts[rank * STREAMS + fd - 1].size_bytes > 0) {
        line_done(lines, rank, fd, now_ns);
    }
}

void launch_lines_destroy(launch_lines *lines)
{
    if (lines == NULL) {
        return;
    }
    while (lines->held_count > 0) {
        print_first(lines);
    }
    free(lines->parts);
    free(lines);
}
