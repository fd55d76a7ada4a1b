/* Looks whether keyring.json, which `key revoke` may change while the service runs, still has its
 * key as one that signs. Called by access.c before anything is granted. */
#include <sys/stat.h>

#include "base/path.h"
#include "budget/service_files.h"
#include "service.h"

static bool is_seen(const service_keyring_file *seen, const struct stat *file)
{
    return seen->known && seen->device == file->st_dev && seen->inode == file->st_ino &&
           seen->changed.tv_sec == file->st_ctim.tv_sec &&
           seen->changed.tv_nsec == file->st_ctim.tv_nsec;
}

static base_status key_signs(const budget_keyring *keyring, const char *kid, base_error *reterr)
{
    const budget_public_key *key = budget_keyring_find(keyring, kid);
    if (key != NULL && key->revoked_at != 0) {
        return base_fail(reterr, BASE_ERR_AUTH,
                         "the service's key %s is revoked: stop the service, run budget-service "
                         "key rotate, start it again",
                         kid);
    }
    if (key == NULL || key->retired_at != 0) {
        return base_fail(reterr, BASE_ERR_AUTH,
                         "by the keyring, the service's key %s signs no more: start the service "
                         "again",
                         kid);
    }
    return BASE_OK;
}

/* Takes the file where it has changed. One that cannot be read, or that others may write, says
 * nothing of the key: what was read before it stands, and the next question tries again, because the
 * reason may have passed (a limit, a file half written) without another change. */
static void follow_file(budget_service *service)
{
    char path[BASE_PATH_BYTES];
    struct stat file;
    budget_keyring keyring;
    base_error why = {0};
    service_keyring_file *seen = &service->keyring_file;
    if (base_path_join(service->dir, BUDGET_FILE_KEYRING, path, NULL) != BASE_OK ||
        stat(path, &file) != 0 || is_seen(seen, &file)) {
        return;
    }
    if (budget_keyring_read(path, &keyring, &why) != BASE_OK) {
        service_log_failure(service, why.message);
        return;
    }
    service->keyring = keyring;
    *seen = (service_keyring_file){
        .known = true, .device = file.st_dev, .inode = file.st_ino, .changed = file.st_ctim};
}

base_status service_keyring_check(budget_service *service, base_error *reterr)
{
    follow_file(service);
    return key_signs(&service->keyring, service->kid, reterr);
}
