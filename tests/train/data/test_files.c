/* Files of a data set are recognized by their contents, not by their names. */
#include "tests/suites.h"
#include "tests/train/folder.h"
#include "train/data/dataset.h"

#include <unistd.h>

static void touch(const char *path)
{
    FILE *file = fopen(path, "wb");
    ck_assert_ptr_nonnull(file);
    ck_assert_int_eq(fclose(file), 0);
}

START_TEST(held)
{
    const char *a = in_folder("a.npz"), *b = in_folder("b.png"), *other = in_folder("other.npz");
    xct_shard shard = {.paths = &a, .path_count = 1};
    xct_images images = {.paths = &b, .count = 1};
    const xct_dataset set = {.shards = &shard, .shard_count = 1}, of_images = {.images = &images};
    touch(a);
    touch(b);
    touch(other);
    ck_assert_int_eq(link(a, in_folder("hard")), 0);
    ck_assert_int_eq(symlink("a.npz", in_folder("soft")), 0);
    ck_assert(xct_dataset_has_file(&set, a) && xct_dataset_has_file(&of_images, b));
    ck_assert(xct_dataset_has_file(&set, in_folder("./a.npz")));
    ck_assert(xct_dataset_has_file(&set, in_folder("hard")) && xct_dataset_has_file(&set, in_folder("soft")));
    ck_assert(!xct_dataset_has_file(&set, other) && !xct_dataset_has_file(&set, b) &&
              !xct_dataset_has_file(&of_images, a));
    ck_assert(!xct_dataset_has_file(&set, in_folder("none")) && !xct_dataset_has_file(&set, folder));
    ck_assert(!xct_dataset_has_file(&set, NULL) && !xct_dataset_has_file(NULL, a));
}
END_TEST

Suite *suite_train_files(void)
{
    Suite *suite = suite_create("train_files");
    TCase *tests = tcase_create("files");
    tcase_add_checked_fixture(tests, make_folder, remove_folder);
    tcase_add_test(tests, held);
    suite_add_tcase(suite, tests);
    return suite;
}
