/* onnx_lowerings: reads paths of ONNX models, one a line, and prints each one's graph after the pass `canonicalize`.
 * Quantized models are printed once more as computed in integers wherever this is possible. What a model that does not
 * compile has printed stays. scripts/lowerings.sh reads the output. */
#include "xcvm/compiler.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

static bool print_graph(void *user, const void *bytes, size_t count) { return fwrite(bytes, 1, count, user) == count; }

static bool drop_program(void *user, const void *bytes, size_t count)
{
    (void)user, (void)bytes, (void)count;
    return true;
}

static void print_model(const char *path, int optimization, xcc_integer_use integers)
{
    xcc_options options = {.size = sizeof options, .optimization = optimization, .quantized.integers = integers};
    options.debug.dump_after = "canonicalize";
    options.debug.dump = (xcvm_sink){print_graph, stdout};
    xcvm_error error = {0};
    if (xcc_compile_file(path, &options, (xcvm_sink){drop_program, NULL}, NULL, &error) != XCVM_OK)
        printf("# %s: %s\n", path, error.message);
}

static bool is_quantized(const char *path)
{
    static const char word[] = "Quantize";
    FILE *file = fopen(path, "rb");
    size_t matched = 0;
    /* No proper suffix of what has been read of the word is a prefix of it. */
    for (int c; file != NULL && matched < sizeof word - 1 && (c = getc(file)) != EOF;)
        matched = c == word[matched] ? matched + 1 : c == word[0];
    if (file != NULL)
        fclose(file);
    return matched == sizeof word - 1;
}

int main(void)
{
    char path[4096];
    while (fgets(path, sizeof path, stdin) != NULL) {
        path[strcspn(path, "\n")] = '\0';
        print_model(path, -1, XCC_INTEGER_AUTO);
        if (is_quantized(path))
            print_model(path, 0, XCC_INTEGER_ALWAYS);
    }
    return ferror(stdin) || fflush(stdout) != 0;
}
