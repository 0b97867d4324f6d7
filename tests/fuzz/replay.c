/* replay FILE|FOLDER...: runs a fuzz target over the files, so that a corpus is a test without libFuzzer. */
#include "fuzz.h"

#include <dirent.h>
#include <stdio.h>
#include <sys/stat.h>

static size_t files;

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
    free(bytes);
    files++;
}

int main(int argc, char **argv)
{
    for (int i = 1; i < argc; i++)
        replay(argv[i]);
    printf("%zu files\n", files);
    return files == 0;
}
