/*
 * Generates text with a language model: the first run reads the prompt, then each run reads one token and gives the
 * next one. Keys and values are states of the session. Each run appends to them in place.
 *
 *   examples/generate/run.sh BUILD
 *   generate PROGRAM PROMPT [TOKENS [TEMPERATURE [TOP_K [TOP_P [SEED]]]]]
 *
 * The program's inputs are "tokens" i64[batch, length], "last" i32[batch], the position of the last token, and "total"
 * i32, the number of tokens including this run's. Its output is "logits" f32[batch, length, vocabulary]. Tokens are
 * bytes. Temperature 0, the default, takes the likeliest token. Otherwise a token is drawn from the TOP_K likeliest (0:
 * all), reduced to the likeliest whose probabilities add up to TOP_P (1: all). The text goes to standard output, times
 * to standard error.
 */
#include <xcvm/xcvm.h>

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef struct sampler {
    double temperature, top_p;
    long top_k;
    uint64_t state;
} sampler;

typedef struct writer {
    xcvm_program *program;
    xcvm_session *session;
    size_t tokens, last, total, logits; /* indices of inputs and of the output */
    int32_t read;                       /* tokens so far */
    xcvm_error error;
} writer;

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static xcvm_status fail(writer *w, xcvm_status status, const char *what)
{
    snprintf(w->error.message, sizeof w->error.message, "%s", what);
    return status;
}

/* ---- Choosing a token ---- */

/* From 0 to below 1 (splitmix64). */
static double uniform(sampler *s)
{
    uint64_t x = s->state += UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return (double)((x ^ x >> 31) >> 11) * 0x1p-53;
}

typedef struct candidate {
    double weight;
    size_t token;
} candidate;

static int likelier_first(const void *a, const void *b)
{
    const candidate *x = a, *y = b;
    if (x->weight != y->weight)
        return x->weight < y->weight ? 1 : -1;
    return (x->token > y->token) - (x->token < y->token);
}

/* Chooses a token. Returns false if there is no memory. */
static bool choose(sampler *s, const float *logits, size_t count, size_t *token)
{
    size_t best = 0;
    for (size_t i = 1; i < count; i++)
        if (logits[i] > logits[best])
            best = i;
    *token = best;
    if (s->temperature <= 0.0)
        return true;
    candidate *all = malloc(count * sizeof *all);
    if (all == NULL)
        return false;
    for (size_t i = 0; i < count; i++)
        all[i] = (candidate){exp(((double)logits[i] - (double)logits[best]) / s->temperature), i};
    qsort(all, count, sizeof *all, likelier_first);
    if (s->top_k > 0 && (size_t)s->top_k < count)
        count = (size_t)s->top_k;
    double sum = 0.0, kept = 0.0;
    for (size_t i = 0; i < count; i++)
        sum += all[i].weight;
    size_t left = 0;
    while (left < count && (left == 0 || kept < s->top_p * sum))
        kept += all[left++].weight;
    double at = uniform(s) * kept;
    size_t i = 0;
    while (i + 1 < left && at >= all[i].weight)
        at -= all[i++].weight;
    *token = all[i].token;
    free(all);
    return true;
}

/* ---- Running ---- */

static xcvm_status open_program(writer *w, const char *path)
{
    static const char *const names[] = {"tokens", "last", "total"};
    size_t *const at[] = {&w->tokens, &w->last, &w->total};
    xcvm_status status = xcvm_program_load_file(path, NULL, &w->program, &w->error);
    if (status != XCVM_OK)
        return status;
    for (size_t i = 0; i < 3; i++) {
        for (*at[i] = 0; *at[i] < xcvm_program_input_count(w->program); ++*at[i])
            if (strcmp(xcvm_program_input_at(w->program, *at[i])->name, names[i]) == 0)
                break;
        if (*at[i] == xcvm_program_input_count(w->program))
            return fail(w, XCVM_INVALID_ARGUMENT, "the program lacks an input (tokens, last or total)");
    }
    for (w->logits = 0; w->logits < xcvm_program_output_count(w->program); w->logits++)
        if (strcmp(xcvm_program_output_at(w->program, w->logits)->name, "logits") == 0)
            return xcvm_session_create(w->program, NULL, &w->session, &w->error);
    return fail(w, XCVM_INVALID_ARGUMENT, "the program has no output logits");
}

static xcvm_status bind(writer *w, size_t input, xcvm_dtype dtype, int rank, const int64_t *dims, void *data)
{
    xcvm_value *value = NULL;
    xcvm_status status = xcvm_tensor_wrap(dtype, rank, dims, data, (xcvm_finalizer){0}, &value, &w->error);
    if (status == XCVM_OK)
        status = xcvm_session_set_input(w->session, input, value, &w->error);
    xcvm_value_release(value);
    return status;
}

/* Reads `count` more tokens. *logits are the scores of the next token, valid until the next run. */
static xcvm_status read_tokens(writer *w, int64_t *tokens, size_t count, const float **logits, size_t *choices)
{
    int32_t total = w->read + (int32_t)count, last = total - 1;
    xcvm_status status = bind(w, w->tokens, XCVM_I64, 2, (const int64_t[]){1, (int64_t)count}, tokens);
    if (status == XCVM_OK)
        status = bind(w, w->last, XCVM_I32, 1, (const int64_t[]){1}, &last);
    if (status == XCVM_OK)
        status = bind(w, w->total, XCVM_I32, 0, NULL, &total);
    if (status == XCVM_OK)
        status = xcvm_session_run(w->session, NULL, &w->error);
    if (status != XCVM_OK)
        return status;
    const xcvm_value *scores = xcvm_session_get_output(w->session, w->logits);
    const int64_t *dims = xcvm_value_dims(scores);
    if (xcvm_value_dtype(scores) != XCVM_F32 || xcvm_value_rank(scores) != 3 || dims[0] != 1 ||
        dims[1] != (int64_t)count || dims[2] < 1)
        return fail(w, XCVM_TYPE_MISMATCH, "output logits is not f32[1, length, tokens]");
    *choices = (size_t)dims[2];
    *logits = (const float *)xcvm_value_data(scores) + (count - 1) * *choices;
    w->read = total;
    return XCVM_OK;
}

static xcvm_status generate(writer *w, sampler *s, const char *prompt, size_t wanted)
{
    const size_t length = strlen(prompt);
    if (length == 0 || length > INT32_MAX / 2 || wanted > INT32_MAX / 2)
        return fail(w, XCVM_INVALID_ARGUMENT, "the prompt is empty, or there are too many tokens");
    int64_t *tokens = malloc(length * sizeof *tokens);
    if (tokens == NULL)
        return fail(w, XCVM_OUT_OF_MEMORY, "no memory for the prompt");
    for (size_t i = 0; i < length; i++)
        tokens[i] = (unsigned char)prompt[i];
    const float *logits = NULL;
    size_t choices = 0, done = 0;
    const double start = now();
    xcvm_status status = read_tokens(w, tokens, length, &logits, &choices);
    const double middle = now();
    while (status == XCVM_OK && done < wanted) {
        size_t token;
        if (!choose(s, logits, choices, &token)) {
            status = fail(w, XCVM_OUT_OF_MEMORY, "no memory for the candidates");
            break;
        }
        putchar((int)token);
        tokens[0] = (int64_t)token;
        if (++done < wanted)
            status = read_tokens(w, tokens, 1, &logits, &choices);
    }
    /* The line ends before a message can follow it. */
    if (done > 0)
        putchar('\n');
    if ((fflush(stdout) != 0 || ferror(stdout)) && status == XCVM_OK)
        status = fail(w, XCVM_IO, "standard output cannot be written");
    const double end = now();
    if (status == XCVM_OK)
        fprintf(stderr, "prompt: %zu tokens in %.2f ms, %.0f a second\nwritten: %zu tokens in %.2f ms, %.0f a second\n",
                length, (middle - start) * 1e3, (double)length / (middle - start), done, (end - middle) * 1e3,
                done > 1 ? (double)(done - 1) / (end - middle) : 0.0);
    free(tokens);
    return status;
}

/* NaN if the argument is not a number. */
static double number(int argc, char **argv, int index, double usual)
{
    if (index >= argc)
        return usual;
    char *end;
    const double value = strtod(argv[index], &end);
    return end != argv[index] && *end == '\0' ? value : NAN;
}

int main(int argc, char **argv)
{
    if (argc < 3 || argc > 8) {
        fprintf(stderr, "usage: generate PROGRAM PROMPT [TOKENS [TEMPERATURE [TOP_K [TOP_P [SEED]]]]]\n");
        return 2;
    }
    const double wanted = number(argc, argv, 3, 100);
    const double top_k = number(argc, argv, 5, 0), seed = number(argc, argv, 7, 0);
    if (!(wanted >= 1 && wanted <= INT32_MAX) || !(number(argc, argv, 4, 0) >= 0) || !(number(argc, argv, 6, 1) > 0) ||
        !(top_k >= 0 && top_k <= INT32_MAX) || !(seed >= 0 && seed < 0x1p63)) {
        fprintf(
            stderr,
            "generate: a number is missing or out of range: TOKENS and TOP_P must be above 0, the others at least 0\n");
        return 2;
    }
    sampler s = {.temperature = number(argc, argv, 4, 0),
                 .top_k = (long)top_k,
                 .top_p = number(argc, argv, 6, 1),
                 .state = (uint64_t)seed};
    writer w = {.program = NULL};
    xcvm_status status = open_program(&w, argv[1]);
    if (status == XCVM_OK)
        status = generate(&w, &s, argv[2], (size_t)wanted);
    if (status != XCVM_OK) {
        const bool names_file = strstr(w.error.message, argv[1]) != NULL;
        fprintf(stderr, "generate: %s%s%s\n", names_file ? "" : argv[1], names_file ? "" : ": ", w.error.message);
        if (status == XCVM_OUT_OF_RANGE && w.read > 0)
            fprintf(stderr,
                    "generate: if a cache is full after %d tokens, compile the model with a larger --dim bound\n",
                    w.read);
    }
    xcvm_session_destroy(w.session);
    xcvm_program_destroy(w.program);
    return status == XCVM_OK ? 0 : 1;
}
