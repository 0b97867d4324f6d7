/* replay [--mutants N] FILE|FOLDER...: runs a fuzz target over the files, so that a corpus is a test without libFuzzer;
 * and over N mutants of each, the same ones every time. */
#include "fuzz.h"

#include <dirent.h>
#include <stdio.h>
#include <sys/stat.h>

static size_t files;
static unsigned mutants;

size_t LLVMFuzzerMutate(uint8_t *bytes, size_t count, size_t capacity)
{
    (void)capacity;
    if (count != 0)
        bytes[count / 2] ^= 0x15;
    return count;
}

/* Each mutant is one of the mutant before, and the first, and every eighth, of the file. */
static void replay_mutants(const uint8_t *bytes, size_t count)
{
    const size_t capacity = 2 * count + 4096;
    uint8_t *mutant = malloc(capacity);
    size_t length = 0;
    for (unsigned i = 0; i < mutants && mutant != NULL; i++) {
        if (i % 8 == 0) {
            memcpy(mutant, bytes, count);
            length = count;
        }
        length = LLVMFuzzerCustomMutator(mutant, length, capacity, i + 1);
        /* Exactly as long, so that reading past the end is found. */
        uint8_t *exact = malloc(length + (length == 0));
        if (exact != NULL) {
            memcpy(exact, mutant, length);
            LLVMFuzzerTestOneInput(exact, length);
        }
        free(exact);
    }
    free(mutant);
}

static void replay(const char *path)
{
    struct stat info;
    if (stat(path, &info) != 0) {
        perror(path);
        exit(1);
    }
    if (S_ISDIR(info.st_mode)) {
        DIR *folder = opendir(path);
        for (struct dirent *entry; folder != NULL && (entry = readdir(folder)) != NULL;) {
            char name[4096];
            if (entry->d_name[0] != '.' && snprintf(name, sizeof name, "%s/%s", path, entry->d_name) < (int)sizeof name)
                replay(name);
        }
        if (folder != NULL)
            closedir(folder);
        return;
    }
    /* Exactly as long as the file, so that reading past the end is found. */
    uint8_t *bytes = malloc((size_t)info.st_size + (info.st_size == 0));
    FILE *file = fopen(path, "rb");
    if (bytes == NULL || file == NULL || fread(bytes, 1, (size_t)info.st_size, file) != (size_t)info.st_size) {
        perror(path);
        exit(1);
    }
    fclose(file);
    LLVMFuzzerTestOneInput(bytes, (size_t)info.st_size);
    replay_mutants(bytes, (size_t)info.st_size);
    free(bytes);
    files++;
}

int main(int argc, char **argv)
{
    int first = 1;
    if (argc > 2 && strcmp(argv[1], "--mutants") == 0) {
        mutants = (unsigned)strtoul(argv[2], NULL, 10);
        first = 3;
    }
    for (int i = first; i < argc; i++)
        replay(argv[i]);
    printf("%zu files, %u mutants of each\n", files, mutants);
    return files == 0;
}
