/* The files of a data set. */
#include "train/data/dataset.h"

#include <sys/stat.h>

static bool is_file(const char *path, const struct stat *file)
{
    struct stat facts;
    return stat(path, &facts) == 0 && facts.st_dev == file->st_dev && facts.st_ino == file->st_ino;
}

bool xct_dataset_has_file(const xct_dataset *set, const char *path)
{
    struct stat file;
    if (set == NULL || path == NULL || stat(path, &file) != 0 || !S_ISREG(file.st_mode))
        return false;
    for (size_t i = 0; i < set->shard_count; i++)
        for (size_t k = 0; k < set->shards[i].path_count; k++)
            if (is_file(set->shards[i].paths[k], &file))
                return true;
    for (size_t i = 0; set->images != NULL && i < set->images->count; i++)
        if (is_file(set->images->paths[i], &file))
            return true;
    return false;
}
