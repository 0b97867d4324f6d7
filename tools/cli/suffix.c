/* Suffixes of file names. */
#include "cli/suffix.h"

#include <string.h>
#include <strings.h>

bool suffix_is(const char *path, const char *suffix)
{
    size_t length = strlen(path), end = strlen(suffix);
    return length > end && strcasecmp(path + length - end, suffix) == 0;
}

/* Whether `suffix` is one of a list. */
static bool is_listed(const char *suffix, const char *list)
{
    const size_t length = strlen(suffix);
    for (const char *at = strstr(list, suffix); at != NULL; at = strstr(at + length, suffix))
        if (at[length] == '\0' || at[length] == ' ')
            return true;
    return false;
}

const char *suffix_of_another(const char *path, const char *own)
{
    static const char *const known[] = {
        ".bin",  ".xcvm", ".onnx",  ".c",   ".wasm", ".pt",   ".pth", ".npz",     ".npy", ".safetensors", ".tflite",
        ".gguf", ".ort",  ".keras", ".h5",  ".hdf5", ".json", ".csv", ".mlmodel", ".png", ".jpg",         ".svg",
        ".xml",  ".zip",  ".gz",    ".tar", ".txt",  ".html", ".py",  ".so",      ".a",   ".o",           ".exe"};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (suffix_is(path, known[i]) && !is_listed(known[i], own))
            return known[i];
    return NULL;
}
