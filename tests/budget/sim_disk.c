/* A disk in memory as a SQLite VFS, with failures and crashes on demand. Used by the simulation and
 * by test_ledger_faults.c. */
#include "sim_disk.h"

#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>

#include "base/splitmix.h"

enum { FILES = 4, NAME_BYTES = 512 };

/* What a write overwrote, so that it can be taken back. */
typedef struct sim_undo {
    int64_t offset;
    int64_t old_size; /* of the whole file */
    int bytes;        /* saved: those that were there */
    int written;
    uint8_t *data;
} sim_undo;

typedef struct sim_data {
    char name[NAME_BYTES];
    bool there;
    uint8_t *bytes;
    int64_t size;
    int64_t capacity;
    sim_undo *undos;
    int undo_count;
    int undo_capacity;
} sim_data;

typedef struct sim_file {
    sqlite3_file base;
    sim_data *data;
} sim_file;

sim_disk_faults sim_disk;
static sim_data files[FILES];
static bool stopped;

static void *must(void *memory)
{
    if (memory == NULL) {
        abort();
    }
    return memory;
}

static void forget_undos(sim_data *data)
{
    for (int i = 0; i < data->undo_count; i++) {
        free(data->undos[i].data);
    }
    data->undo_count = 0;
}

/* One operation that changes the disk: SQLITE_OK, or that the machine has stopped. */
static int operate(void)
{
    if (sim_disk.crash_after == 0) {
        stopped = true;
    } else if (sim_disk.crash_after > 0) {
        sim_disk.crash_after--;
    }
    return stopped ? SQLITE_IOERR : SQLITE_OK;
}

static void resize(sim_data *data, int64_t size)
{
    if (size > data->capacity) {
        data->capacity = 2 * size + 4096;
        data->bytes = must(realloc(data->bytes, (size_t)data->capacity));
    }
    if (size > data->size) {
        memset(data->bytes + data->size, 0, (size_t)(size - data->size));
    }
    data->size = size;
}

static void note_undo(sim_data *data, int64_t offset, int written)
{
    if (data->undo_count == data->undo_capacity) {
        data->undo_capacity = 2 * data->undo_capacity + 16;
        data->undos = must(realloc(data->undos, (size_t)data->undo_capacity * sizeof *data->undos));
    }
    sim_undo *made = &data->undos[data->undo_count++];
    const int64_t there = data->size - offset;
    made->offset = offset;
    made->old_size = data->size;
    made->written = written;
    made->bytes = there <= 0 ? 0 : (int)(there < written ? there : written);
    made->data = must(malloc((size_t)made->bytes + 1));
    if (made->bytes > 0) {
        memcpy(made->data, data->bytes + offset, (size_t)made->bytes);
    }
}

static int sim_close(sqlite3_file *file)
{
    (void)file;
    return SQLITE_OK;
}

static int sim_read(sqlite3_file *file, void *to, int bytes, sqlite3_int64 offset)
{
    const sim_data *data = ((sim_file *)file)->data;
    const int64_t there = data->size - offset;
    const int got = there <= 0 ? 0 : (int)(there < bytes ? there : bytes);
    if (stopped) {
        return SQLITE_IOERR_READ;
    }
    if (got > 0) {
        memcpy(to, data->bytes + offset, (size_t)got);
    }
    memset((uint8_t *)to + got, 0, (size_t)(bytes - got));
    return got == bytes ? SQLITE_OK : SQLITE_IOERR_SHORT_READ;
}

static int sim_write(sqlite3_file *file, const void *from, int bytes, sqlite3_int64 offset)
{
    sim_data *data = ((sim_file *)file)->data;
    const int64_t grown = offset + bytes - data->size;
    if (operate() != SQLITE_OK) {
        return SQLITE_IOERR_WRITE;
    }
    if (sim_disk.read_only) {
        return SQLITE_READONLY;
    }
    if (grown > 0 && sim_disk.space_bytes >= 0) {
        if (grown > sim_disk.space_bytes) {
            return SQLITE_FULL;
        }
        sim_disk.space_bytes -= grown;
    }
    note_undo(data, offset, bytes);
    if (grown > 0) {
        resize(data, offset + bytes);
    }
    memcpy(data->bytes + offset, from, (size_t)bytes);
    return SQLITE_OK;
}

static int sim_truncate(sqlite3_file *file, sqlite3_int64 size)
{
    sim_data *data = ((sim_file *)file)->data;
    if (operate() != SQLITE_OK) {
        return SQLITE_IOERR_TRUNCATE;
    }
    if (size < data->size) {
        note_undo(data, size, (int)(data->size - size));
        resize(data, size);
    }
    return SQLITE_OK;
}

static int sim_sync(sqlite3_file *file, int flags)
{
    (void)flags;
    if (operate() != SQLITE_OK) {
        return SQLITE_IOERR_FSYNC;
    }
    if (sim_disk.sync_fails_after == 0) {
        sim_disk.sync_fails_after = -1; /* the next one would claim success */
        return SQLITE_IOERR_FSYNC;
    }
    if (sim_disk.sync_fails_after > 0) {
        sim_disk.sync_fails_after--;
    }
    forget_undos(((sim_file *)file)->data);
    return SQLITE_OK;
}

static int sim_size(sqlite3_file *file, sqlite3_int64 *size)
{
    *size = ((sim_file *)file)->data->size;
    return SQLITE_OK;
}

static int sim_lock(sqlite3_file *file, int level)
{
    (void)file;
    (void)level;
    return SQLITE_OK;
}

static int sim_reserved(sqlite3_file *file, int *result)
{
    (void)file;
    *result = 0;
    return SQLITE_OK;
}

static int sim_control(sqlite3_file *file, int operation, void *argument)
{
    (void)file;
    (void)operation;
    (void)argument;
    return SQLITE_NOTFOUND;
}

static int sim_sector(sqlite3_file *file)
{
    (void)file;
    return 512;
}

static int sim_characteristics(sqlite3_file *file)
{
    (void)file;
    return 0;
}

static const sqlite3_io_methods methods = {
    .iVersion = 1,
    .xClose = sim_close,
    .xRead = sim_read,
    .xWrite = sim_write,
    .xTruncate = sim_truncate,
    .xSync = sim_sync,
    .xFileSize = sim_size,
    .xLock = sim_lock,
    .xUnlock = sim_lock,
    .xCheckReservedLock = sim_reserved,
    .xFileControl = sim_control,
    .xSectorSize = sim_sector,
    .xDeviceCharacteristics = sim_characteristics,
};

static sim_data *find(const char *name, bool create)
{
    sim_data *unused = NULL;
    for (int i = 0; i < FILES; i++) {
        if (files[i].there && strcmp(files[i].name, name) == 0) {
            return &files[i];
        }
        unused = !files[i].there && unused == NULL ? &files[i] : unused;
    }
    if (create && unused != NULL && strlen(name) < NAME_BYTES) {
        memcpy(unused->name, name, strlen(name) + 1);
        unused->there = true;
        unused->size = 0;
        return unused;
    }
    return NULL;
}

static int vfs_open(sqlite3_vfs *vfs, const char *name, sqlite3_file *file, int flags,
                    int *out_flags)
{
    (void)vfs;
    sim_file *opened = (sim_file *)file;
    opened->base.pMethods = NULL;
    opened->data = find(name, (flags & SQLITE_OPEN_CREATE) != 0);
    if (opened->data == NULL || stopped) {
        return SQLITE_CANTOPEN;
    }
    opened->base.pMethods = &methods;
    if (out_flags != NULL) {
        *out_flags = flags;
    }
    return SQLITE_OK;
}

static int vfs_delete(sqlite3_vfs *vfs, const char *name, int sync)
{
    (void)vfs;
    (void)sync;
    sim_data *data = find(name, false);
    if (operate() != SQLITE_OK) {
        return SQLITE_IOERR_DELETE;
    }
    if (data != NULL) {
        forget_undos(data);
        data->there = false;
    }
    return SQLITE_OK;
}

static int vfs_access(sqlite3_vfs *vfs, const char *name, int flags, int *result)
{
    (void)vfs;
    (void)flags;
    *result = find(name, false) != NULL;
    return SQLITE_OK;
}

static int vfs_path(sqlite3_vfs *vfs, const char *name, int bytes, char *path)
{
    (void)vfs;
    if ((int)strlen(name) >= bytes) {
        return SQLITE_CANTOPEN;
    }
    memcpy(path, name, strlen(name) + 1);
    return SQLITE_OK;
}

static int vfs_randomness(sqlite3_vfs *vfs, int bytes, char *to)
{
    (void)vfs;
    memset(to, 0x5a, (size_t)bytes); /* runs are the same */
    return bytes;
}

static int vfs_sleep(sqlite3_vfs *vfs, int us)
{
    (void)vfs;
    return us;
}

static int vfs_time(sqlite3_vfs *vfs, double *day)
{
    (void)vfs;
    *day = 2461000.0;
    return SQLITE_OK;
}

static int vfs_error(sqlite3_vfs *vfs, int bytes, char *text)
{
    (void)vfs;
    (void)bytes;
    (void)text;
    return 0;
}

static sqlite3_vfs vfs = {
    .iVersion = 1,
    .szOsFile = sizeof(sim_file),
    .mxPathname = NAME_BYTES,
    .zName = SIM_DISK_VFS,
    .xOpen = vfs_open,
    .xDelete = vfs_delete,
    .xAccess = vfs_access,
    .xFullPathname = vfs_path,
    .xRandomness = vfs_randomness,
    .xSleep = vfs_sleep,
    .xCurrentTime = vfs_time,
    .xGetLastError = vfs_error,
};

static void no_faults(void)
{
    sim_disk = (sim_disk_faults){.crash_after = -1, .space_bytes = -1, .sync_fails_after = -1};
    stopped = false;
}

void sim_disk_reset(void)
{
    if (sqlite3_vfs_find(SIM_DISK_VFS) == NULL && sqlite3_vfs_register(&vfs, 0) != SQLITE_OK) {
        abort();
    }
    for (int i = 0; i < FILES; i++) {
        forget_undos(&files[i]);
        files[i].there = false;
        files[i].size = 0;
    }
    no_faults();
}

bool sim_disk_stopped(void)
{
    return stopped;
}

static void take_back(sim_data *data, const sim_undo *from)
{
    resize(data, from->old_size);
    if (from->bytes > 0) {
        memcpy(data->bytes + from->offset, from->data, (size_t)from->bytes);
    }
}

void sim_disk_crash(uint64_t random)
{
    for (int i = 0; i < FILES; i++) {
        sim_data *data = &files[i];
        const int kept = (int)(random % (uint64_t)(data->undo_count + 1));
        for (int k = data->undo_count - 1; data->there && k >= kept; k--) {
            sim_undo *last = &data->undos[k];
            uint8_t *torn = NULL;
            const int half = last->written / 2;
            if (k == kept && random % 3 == 0 && last->offset + half <= data->size) {
                torn = must(malloc((size_t)half + 1));
                memcpy(torn, data->bytes + last->offset, (size_t)half);
            }
            take_back(data, last);
            if (torn != NULL) {
                if (data->size < last->offset + half) {
                    resize(data, last->offset + half);
                }
                memcpy(data->bytes + last->offset, torn, (size_t)half);
                free(torn);
            }
        }
        forget_undos(data);
        (void)base_splitmix_next(&random);
    }
    no_faults();
}
