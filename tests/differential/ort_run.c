/*
 * ort_run: the peer's side of the differential test. Reads folders from standard input, one a line, each a case in
 * ONNX's layout (model.onnx, test_data_set_0/input_N.pb), runs the model in ONNX Runtime, and writes
 * test_data_set_0/output_N.pb (output_N_M.pb for the items of a sequence). Prints a line for each folder:
 *
 *   ok FOLDER
 *   refused FOLDER CODE MESSAGE   ONNX Runtime's error code, as 9 for what it does not implement
 *   crashed FOLDER
 *
 * A file peer.onnx beside model.onnx is run in its stead. Cases run in a child process, which is replaced when it
 * crashes. Graph optimizations are off: a peer that rewrites the model computes something else.
 */
#define _GNU_SOURCE
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ort.h"

enum { MAX_VALUES = 64 };

static void *environment, *options;

/* ---- Results ---- */

static void put_varint(FILE *file, uint64_t value)
{
    for (; value > 127; value >>= 7)
        fputc((int)(value & 127) | 128, file);
    fputc((int)value, file);
}

static void *write_strings(FILE *file, void *value, size_t count)
{
    size_t length;
    TRY(STRINGS_LENGTH, value, &length);
    char *text = malloc(length + 1);
    size_t *starts = malloc(sizeof *starts * (count + 1));
    TRY(STRINGS_CONTENT, value, text, length, starts, count);
    starts[count] = length;
    for (size_t i = 0; i < count; i++) {
        put_varint(file, 6 << 3 | 2);
        put_varint(file, starts[i + 1] - starts[i]);
        fwrite(text + starts[i], 1, starts[i + 1] - starts[i], file);
    }
    free(text);
    free(starts);
    return NULL;
}

static void *write_tensor(const char *path, void *value)
{
    void *info, *data;
    int type;
    size_t rank, count;
    int64_t dims[32];
    TRY(TENSOR_INFO, value, &info);
    TRY(ELEMENT_TYPE, info, &type);
    TRY(DIM_COUNT, info, &rank);
    TRY(DIMS, info, dims, rank);
    TRY(ELEMENT_COUNT, info, &count);
    RELEASE(RELEASE_TENSOR_INFO, info);
    FILE *file = fopen(path, "wb");
    if (file == NULL)
        give_up("cannot write", path);
    for (size_t i = 0; i < rank; i++) {
        put_varint(file, 1 << 3);
        put_varint(file, (uint64_t)dims[i]);
    }
    put_varint(file, 2 << 3);
    put_varint(file, (uint64_t)type);
    if (type == STRING) {
        void *status = write_strings(file, value, count);
        if (status != NULL)
            return status;
    } else if (count != 0) {
        size_t bytes = (count * bits_of(type) + 7) / 8;
        TRY(TENSOR_DATA, value, &data);
        put_varint(file, 9 << 3 | 2);
        put_varint(file, bytes);
        fwrite(data, 1, bytes, file);
    }
    if (fclose(file) != 0)
        give_up("cannot write", path);
    return NULL;
}

static void *write_value(const char *folder, size_t index, void *value)
{
    char path[4096];
    int kind = 1;
    size_t count = 0;
    TRY(VALUE_TYPE, value, &kind);
    if (kind != 2) {
        snprintf(path, sizeof path, "%s/test_data_set_0/output_%zu.pb", folder, index);
        return write_tensor(path, value);
    }
    TRY(VALUE_COUNT, value, &count);
    for (size_t i = 0; i < count; i++) {
        void *item;
        TRY(GET_VALUE, value, (int)i, allocator, &item);
        snprintf(path, sizeof path, "%s/test_data_set_0/output_%zu_%zu.pb", folder, index, i);
        void *status = write_tensor(path, item);
        RELEASE(RELEASE_VALUE, item);
        if (status != NULL)
            return status;
    }
    return NULL;
}

/* ---- Cases ---- */

static void *run_model(const char *folder, void *session)
{
    char *in_name[MAX_VALUES], *out_name[MAX_VALUES], path[4096];
    void *in[MAX_VALUES] = {0}, *out[MAX_VALUES] = {0};
    size_t n_in, n_out;
    TRY(INPUT_COUNT, session, &n_in);
    TRY(OUTPUT_COUNT, session, &n_out);
    if (n_in > MAX_VALUES || n_out > MAX_VALUES)
        give_up("too many inputs or outputs:", folder);
    for (size_t i = 0; i < n_in; i++) {
        TRY(INPUT_NAME, session, i, allocator, &in_name[i]);
        snprintf(path, sizeof path, "%s/test_data_set_0/input_%zu.pb", folder, i);
        void *status = read_tensor(path, &in[i]);
        if (status != NULL)
            return status;
    }
    for (size_t i = 0; i < n_out; i++)
        TRY(OUTPUT_NAME, session, i, allocator, &out_name[i]);
    void *status = CALL(RUN, session, NULL, in_name, in, n_in, out_name, n_out, out);
    for (size_t i = 0; i < n_out && status == NULL; i++)
        status = write_value(folder, i, out[i]);
    for (size_t i = 0; i < n_in; i++)
        RELEASE(RELEASE_VALUE, in[i]);
    for (size_t i = 0; i < n_out; i++)
        if (out[i] != NULL)
            RELEASE(RELEASE_VALUE, out[i]);
    return status;
}

static void run_case(const char *folder)
{
    char path[4096];
    void *session = NULL;
    /* The same model as of an opset that the peer has, where it lacks the newer one. */
    snprintf(path, sizeof path, "%s/peer.onnx", folder);
    if (access(path, R_OK) != 0)
        snprintf(path, sizeof path, "%s/model.onnx", folder);
    void *status = CALL(CREATE_SESSION, environment, path, options, &session);
    if (status == NULL)
        status = run_model(folder, session);
    if (session != NULL)
        RELEASE(RELEASE_SESSION, session);
    if (status == NULL) {
        printf("ok %s\n", folder);
    } else {
        char *why = strdup(((const char *(*)(void *))(uintptr_t)api[GET_ERROR_MESSAGE])(status));
        for (char *at = why; *at != '\0'; at++)
            if (*at == '\n')
                *at = ' ';
        printf("refused %s %d %s\n", folder, ((int (*)(void *))(uintptr_t)api[GET_ERROR_CODE])(status), why);
        RELEASE(RELEASE_STATUS, status);
        free(why);
    }
    fflush(stdout);
}

static void must(void *status)
{
    if (status != NULL)
        give_up("says", ((const char *(*)(void *))(uintptr_t)api[GET_ERROR_MESSAGE])(status));
}

static void start(void)
{
    api = OrtGetApiBase()->get_api(20);
    must(CALL(CREATE_ENV, 4, "differential", &environment));
    must(CALL(CREATE_OPTIONS, &options));
    must(CALL(SET_INTRA, options, 1));
    must(CALL(SET_INTER, options, 1));
    must(CALL(SET_OPT_LEVEL, options, 0));
    must(CALL(SET_LOG_SEVERITY, options, 4));
    must(CALL(DEFAULT_ALLOCATOR, &allocator));
}

int main(void)
{
    char **folders = NULL, *line = NULL;
    size_t count = 0, room = 0, capacity = 0;
    for (ssize_t n; (n = getline(&line, &room, stdin)) > 0;) {
        line[strcspn(line, "\n")] = '\0';
        if (count == capacity)
            folders = realloc(folders, sizeof *folders * (capacity = 2 * capacity + 64));
        folders[count++] = strdup(line);
    }
    size_t *next = mmap(NULL, sizeof *next, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    *next = 0;
    while (*next < count) {
        fflush(stdout);
        pid_t child = fork();
        if (child == 0) {
            start();
            while (*next < count) {
                run_case(folders[*next]);
                ++*next;
            }
            fflush(stdout);
            _exit(0);
        }
        int status;
        if (child < 0 || waitpid(child, &status, 0) != child)
            give_up("cannot start", "a process");
        if (WIFEXITED(status) && WEXITSTATUS(status) == 2)
            return 2;
        if (*next < count)
            printf("crashed %s\n", folders[(*next)++]);
    }
    return 0;
}
