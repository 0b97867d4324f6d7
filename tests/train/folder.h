/* A temporary directory with its contents for each test, as a checked fixture. */
#ifndef XCVM_TESTS_TRAIN_FOLDER_H
#define XCVM_TESTS_TRAIN_FOLDER_H

#include "tests/support.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>

static char folder[64];

static void make_folder(void)
{
    snprintf(folder, sizeof folder, "/tmp/xcvm_train.XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(folder));
}

static void remove_folder(void)
{
    char command[128];
    snprintf(command, sizeof command, "rm -rf %s", folder);
    ck_assert_int_eq(system(command), 0);
}

/* The path of a file in it, valid until 31 more are requested. */
static const char *in_folder(const char *name)
{
    static char paths[32][128];
    static int next;
    char *path = paths[next++ % 32];
    snprintf(path, sizeof paths[0], "%s/%s", folder, name);
    return path;
}

#endif
