/* Runs a fuzz target over the files of a directory, and over MUTANTS inputs drawn from each:
 * fuzz-NAME DIRECTORY. The same inputs every time: what breaks here breaks again. libFuzzer looks
 * further (./dev fuzz). */
#include <dirent.h>
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/splitmix.h"

enum { INPUT_BYTES_MAX = 1 << 20, MUTANTS = 300, EDITS_MAX = 4, RUN_BYTES_MAX = 16 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes);

/* A random number in 0 .. below - 1. */
static size_t draw(uint64_t *state, size_t below)
{
    return (size_t)(base_splitmix_next(state) % below);
}

/* Edits one place of size_bytes > 0 bytes, in a buffer that has room for RUN_BYTES_MAX more. Returns
 * the new size. */
static size_t edit(uint8_t *data, size_t size_bytes, uint64_t *state)
{
    static const uint8_t edges[] = {0, 1, 0x7f, 0x80, 0xff, '0', '9', '-', '"', '{', '[', '\n'};
    const size_t at = draw(state, size_bytes);
    const size_t left = size_bytes - at;
    const size_t run = 1 + draw(state, left < RUN_BYTES_MAX ? left : RUN_BYTES_MAX);
    switch (draw(state, 6)) {
    case 0:
        data[at] ^= (uint8_t)(1U << draw(state, 8));
        return size_bytes;
    case 1:
        data[at] = edges[draw(state, sizeof edges)];
        return size_bytes;
    case 2: /* another place's bytes here */
        memmove(data + at, data + draw(state, size_bytes - run + 1), run);
        return size_bytes;
    case 3: /* the bytes twice */
        memmove(data + at + run, data + at, left);
        return size_bytes + run;
    case 4: /* not at all */
        memmove(data + at, data + at + run, left - run);
        return size_bytes - run;
    default: /* nor what follows, one time in four */
        return draw(state, 4) == 0 ? at : size_bytes;
    }
}

/* Each input has memory of its own size, for AddressSanitizer to see a byte behind it. */
static void run_target(const uint8_t *data, size_t size_bytes)
{
    uint8_t *copy = malloc(size_bytes + (size_bytes == 0));
    if (copy == NULL) {
        abort();
    }
    memcpy(copy, data, size_bytes);
    (void)LLVMFuzzerTestOneInput(copy, size_bytes);
    free(copy);
}

static bool replay(const char *directory, const char *name)
{
    char path[PATH_MAX];
    base_error error = {0};
    void *seed = NULL;
    size_t seed_bytes = 0;
    uint64_t state = 1;
    (void)snprintf(path, sizeof path, "%s/%s", directory, name);
    if (base_file_read(path, INPUT_BYTES_MAX, &seed, &seed_bytes, &error) != BASE_OK) {
        (void)fprintf(stderr, "%s\n", error.message);
        return false;
    }
    uint8_t *mutant = malloc(seed_bytes + EDITS_MAX * RUN_BYTES_MAX + 1);
    if (mutant == NULL) {
        abort();
    }
    (void)printf("%s\n", name);
    (void)fflush(stdout);
    memcpy(mutant, seed, seed_bytes);
    run_target(mutant, seed_bytes);
    for (int i = 0; i < MUTANTS && seed_bytes > 0; i++) {
        size_t size_bytes = seed_bytes;
        memcpy(mutant, seed, seed_bytes);
        for (size_t edits = 1 + draw(&state, EDITS_MAX); edits > 0 && size_bytes > 0; edits--) {
            size_bytes = edit(mutant, size_bytes, &state);
        }
        run_target(mutant, size_bytes);
    }
    free(mutant);
    free(seed);
    return true;
}

int main(int argument_count, char **arguments)
{
    DIR *directory = argument_count == 2 ? opendir(arguments[1]) : NULL;
    int count = 0;
    bool good = true;
    if (directory == NULL) {
        (void)fprintf(stderr, "usage: %s DIRECTORY (which must be there)\n", arguments[0]);
        return 2;
    }
    for (const struct dirent *entry = readdir(directory); entry != NULL;
         entry = readdir(directory)) {
        if (entry->d_name[0] != '.') {
            good = replay(arguments[1], entry->d_name) && good;
            count++;
        }
    }
    (void)closedir(directory);
    (void)printf("%d seeds, %d inputs of each\n", count, 1 + MUTANTS);
    return good && count > 0 ? 0 : 1;
}
