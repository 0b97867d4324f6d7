/*
 * Generates token ids with a decoder: an ONNX model of any exporter, which is compiled first, or a program.
 *
 *   decode MODEL [--ids 1,2,3] [--count N] [--end ID] [--temperature T] [--top-k K] [--seed S]
 *          [--states auto|PATTERN|none] [--cache-rows N] [--dim NAME=SIZE]...
 *
 * The keys and values of a transformer, or the state of a recurrent network, are states of the session. The first run
 * reads the prompt, and each later run reads one token. The program fills inputs by their names (input_ids,
 * attention_mask, position_ids, cache_position, use_cache_branch, seqlens_k, total_sequence_length and others, in the
 * table below; the only other input of integers has the ids). Without states, each run reads all tokens again.
 * docs/decoders.md explains how to export and compile a decoder. Ids go to standard output.
 */
#include <xcvm/compiler.h>
#include <xcvm/xcvm.h>

#include <math.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_IDS = 65536, MOST_DIMS = 16 };

typedef struct settings {
    const char *path, *states;
    int64_t ids[MOST_IDS];
    size_t id_count, count, top_k;
    int64_t end, cache_rows; /* end: the id that ends the text; -1: none */
    double temperature;
    uint64_t seed;
    xcc_dim dims[MOST_DIMS];
    size_t dim_count;
} settings;

typedef struct decoder {
    xcvm_program *program;
    xcvm_session *session;
    size_t logits;    /* the output */
    int64_t read;     /* tokens that earlier runs have read */
    int64_t *numbers; /* elements of inputs, MOST_IDS for each */
    bool compiled;    /* from a model */
    bool rereads;     /* the program has no states: each run reads all tokens */
    xcvm_error error;
} decoder;

/* ---- Sampling ---- */

/* From 0 to below 1 (splitmix64). */
static double uniform(uint64_t *state)
{
    uint64_t x = *state += UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return (double)((x ^ x >> 31) >> 11) * 0x1p-53;
}

typedef struct candidate {
    double logit;
    size_t id;
} candidate;

static int greater_first(const void *a, const void *b)
{
    const candidate *x = a, *y = b;
    if (x->logit != y->logit)
        return x->logit < y->logit ? 1 : -1;
    return (x->id > y->id) - (x->id < y->id);
}

/* Temperature 0 selects the largest logit. Returns false if there is no memory. */
static bool choose(settings *s, const float *logits, size_t count, int64_t *id)
{
    candidate *all = malloc(count * sizeof *all);
    if (all == NULL)
        return false;
    for (size_t i = 0; i < count; i++)
        all[i] = (candidate){(double)logits[i], i};
    qsort(all, count, sizeof *all, greater_first);
    const size_t kept = s->temperature <= 0.0 ? 1 : s->top_k > 0 && s->top_k < count ? s->top_k : count;
    double sum = 0.0, at;
    size_t chosen = 0;
    for (size_t i = 0; i < kept; i++)
        sum += exp((all[i].logit - all[0].logit) / (s->temperature > 0.0 ? s->temperature : 1.0));
    at = uniform(&s->seed) * sum;
    while (chosen + 1 < kept) {
        at -= exp((all[chosen].logit - all[0].logit) / s->temperature);
        if (at < 0.0)
            break;
        chosen++;
    }
    *id = (int64_t)all[chosen].id;
    free(all);
    return true;
}

/* ---- Inputs ---- */

/* The elements of an input, chosen by its name: a run reads `count` tokens after `read` earlier ones. */
typedef enum role {
    TOKENS,    /* the ids */
    POSITIONS, /* read, read + 1 ... */
    MASK,      /* ones for all tokens so far */
    TOTAL,     /* the number of tokens so far */
    LAST,      /* the position of the last token */
    HAS_PAST,  /* false in the first run */
    ONE        /* 1, such as the number of requested logits */
} role;

static const struct {
    const char *name;
    role role;
} roles[] = {
    {"input_ids", TOKENS},
    {"decoder_input_ids", TOKENS},
    {"tokens", TOKENS},
    {"ids", TOKENS},
    {"input", TOKENS},
    {"position_ids", POSITIONS},
    {"cache_position", POSITIONS},
    {"positions", POSITIONS},
    {"attention_mask", MASK},
    {"mask", MASK},
    {"total_sequence_length", TOTAL},
    {"total", TOTAL},
    {"seqlens_k", LAST},
    {"last", LAST},
    {"use_cache_branch", HAS_PAST},
    {"num_logits_to_keep", ONE},
    {"logits_to_keep", ONE},
};

static xcvm_status fail(decoder *d, xcvm_status status, const char *format, ...) __attribute__((format(printf, 3, 4)));
static xcvm_status fail(decoder *d, xcvm_status status, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(d->error.message, sizeof d->error.message, format, arguments);
    va_end(arguments);
    return status;
}

/* Writes element `index` in the type of the input. */
static void put(xcvm_dtype dtype, void *elements, size_t index, int64_t value)
{
    switch (dtype) {
    case XCVM_I32:
        ((int32_t *)elements)[index] = (int32_t)value;
        break;
    case XCVM_BOOL:
        ((bool *)elements)[index] = value != 0;
        break;
    case XCVM_F32:
        ((float *)elements)[index] = (float)value;
        break;
    default:
        ((int64_t *)elements)[index] = value;
        break;
    }
}

static xcvm_status set_input(decoder *d, size_t index, role kind, const int64_t *ids, size_t count)
{
    const xcvm_value_info *input = xcvm_program_input_at(d->program, index);
    const xcvm_dtype dtype = input->type.dtype;
    const int64_t total = d->read + (int64_t)count, numbers[] = {0, 0, 1, total, total - 1, d->read > 0, 1};
    const size_t length = kind == MASK ? (size_t)total : kind <= POSITIONS ? count : 1;
    void *elements = d->numbers + index * MOST_IDS;
    int64_t dims[XCVM_MAX_RANK];
    if (input->type.rank < 0 || input->type.rank > XCVM_MAX_RANK ||
        (dtype != XCVM_I64 && dtype != XCVM_I32 && dtype != XCVM_BOOL && dtype != XCVM_F32))
        return fail(d, XCVM_UNSUPPORTED, "input \"%.100s\": decode cannot fill an input of this type or rank",
                    input->name);
    /* One batch entry; the last dimension holds the tokens. */
    for (int i = 0; i < input->type.rank; i++)
        dims[i] = i + 1 < input->type.rank ? 1 : (int64_t)length;
    for (size_t i = 0; i < length; i++)
        put(dtype, elements, i, kind == TOKENS ? ids[i] : kind == POSITIONS ? d->read + (int64_t)i : numbers[kind]);
    xcvm_value *value = NULL;
    xcvm_status status =
        xcvm_tensor_wrap(dtype, input->type.rank, dims, elements, (xcvm_finalizer){0}, &value, &d->error);
    if (status == XCVM_OK)
        status = xcvm_session_set_input(d->session, index, value, &d->error);
    xcvm_value_release(value);
    return status;
}

static const size_t role_count = sizeof roles / sizeof *roles;

/* The number of the role of that name; role_count: none. */
static size_t find_role(const char *name)
{
    size_t k = 0;
    while (k < role_count && strcmp(roles[k].name, name) != 0)
        k++;
    return k;
}

/* True if `index` is the only input of integers without a role, and no input has the role of the ids. */
static bool must_be_ids(const decoder *d, size_t index)
{
    for (size_t i = 0; i < xcvm_program_input_count(d->program); i++) {
        const xcvm_value_info *input = xcvm_program_input_at(d->program, i);
        const size_t k = find_role(input->name);
        const bool integers = input->type.dtype == XCVM_I64 || input->type.dtype == XCVM_I32;
        if (k < role_count ? roles[k].role == TOKENS : i == index ? !integers : integers)
            return false;
    }
    return true;
}

static xcvm_status set_inputs(decoder *d, const int64_t *ids, size_t count)
{
    for (size_t i = 0; i < xcvm_program_input_count(d->program); i++) {
        const char *name = xcvm_program_input_at(d->program, i)->name;
        const size_t k = find_role(name);
        if (k == role_count && !must_be_ids(d, i))
            return fail(d, XCVM_UNSUPPORTED,
                        "input \"%.100s\" is not a state, and decode knows no value for it. Name its pair: "
                        "--states OUTPUT:INPUT",
                        name);
        const xcvm_status status = set_input(d, i, k < role_count ? roles[k].role : TOKENS, ids, count);
        if (status != XCVM_OK)
            return status;
    }
    return XCVM_OK;
}

/* ---- Running ---- */

/* Reads tokens. *logits are those of the last token, valid until the next run. */
static xcvm_status read_tokens(decoder *d, const int64_t *ids, size_t count, const float **logits, size_t *choices)
{
    if (d->read + (int64_t)count > MOST_IDS)
        return fail(d, XCVM_UNSUPPORTED, "decode reads %d tokens at most", MOST_IDS);
    xcvm_status status = set_inputs(d, ids, count);
    if (status == XCVM_OK)
        status = xcvm_session_run(d->session, NULL, &d->error);
    if (status != XCVM_OK)
        return status;
    const xcvm_value *scores = xcvm_session_get_output(d->session, d->logits);
    const int rank = xcvm_value_rank(scores);
    if (xcvm_value_dtype(scores) != XCVM_F32 || rank < 1 || xcvm_value_count(scores) == 0)
        return fail(d, XCVM_UNSUPPORTED, "output \"%.100s\" has no f32 logits",
                    xcvm_program_output_at(d->program, d->logits)->name);
    *choices = (size_t)xcvm_value_dims(scores)[rank - 1];
    *logits = (const float *)xcvm_value_data(scores) + xcvm_value_count(scores) - *choices;
    d->read += d->rereads ? 0 : (int64_t)count;
    return XCVM_OK;
}

/* Reads the next token, or with it all before. */
static xcvm_status read_next(decoder *d, settings *s, int64_t id, const float **logits, size_t *choices)
{
    if (!d->rereads)
        return read_tokens(d, &id, 1, logits, choices);
    if (s->id_count == MOST_IDS)
        return fail(d, XCVM_UNSUPPORTED, "decode reads %d tokens at most", MOST_IDS);
    s->ids[s->id_count++] = id;
    return read_tokens(d, s->ids, s->id_count, logits, choices);
}

/* Each id is flushed, so that a reader sees it at once. The line is ended before a message can follow it. */
static xcvm_status generate(decoder *d, settings *s)
{
    const float *logits = NULL;
    size_t choices = 0, written = 0;
    int64_t id = -1;
    xcvm_status status = read_tokens(d, s->ids, s->id_count, &logits, &choices);
    while (status == XCVM_OK && written < s->count && (written == 0 || id != s->end)) {
        if (written > 0)
            status = read_next(d, s, id, &logits, &choices);
        if (status == XCVM_OK && !choose(s, logits, choices, &id))
            status = fail(d, XCVM_OUT_OF_MEMORY, "the memory does not suffice for candidates");
        if (status == XCVM_OK && (printf("%s%lld", written++ > 0 ? " " : "", (long long)id) < 0 || fflush(stdout) != 0))
            status = fail(d, XCVM_IO, "standard output cannot be written");
    }
    if (written > 0 && (putchar('\n') == EOF || fflush(stdout) != 0) && status == XCVM_OK)
        status = fail(d, XCVM_IO, "standard output cannot be written");
    return status;
}

/* ---- Opening ---- */

typedef struct bytes {
    char *at;
    size_t count;
} bytes;

static bool collect(void *user, const void *more, size_t count)
{
    bytes *b = user;
    char *larger = realloc(b->at, b->count + count + 1);
    if (larger == NULL)
        return false;
    memcpy(larger + b->count, more, count);
    b->at = larger;
    b->count += count;
    return true;
}

/* Prints the compiler's notes on states. */
static void print_note(void *user, xcc_diagnostic_kind kind, const char *text)
{
    if (kind == XCC_DIAGNOSTIC_STATE_PAIR)
        fprintf(user, "decode: note: %s\n", text);
}

static xcvm_status compile(decoder *d, const settings *s)
{
    bytes program = {NULL, 0};
    const bool states = strcmp(s->states, "none") != 0;
    const xcc_options options = {
        .size = sizeof options,
        .dims = s->dims,
        .dim_count = s->dim_count,
        .diagnostics = {print_note, stderr},
        .states = {.patterns = &s->states, .pattern_count = states ? 1 : 0, .cache_rows = s->cache_rows}};
    xcvm_status status = xcc_compile_file(s->path, &options, (xcvm_sink){collect, &program}, NULL, &d->error);
    if (status == XCVM_OK)
        status = xcvm_program_load(program.at, program.count,
                                   &(xcvm_load_options){.size = sizeof(xcvm_load_options), .copy = true}, &d->program,
                                   &d->error);
    free(program.at);
    return status;
}

static xcvm_status open_decoder(decoder *d, const settings *s)
{
    const size_t length = strlen(s->path);
    const bool is_model = length > 5 && strcmp(s->path + length - 5, ".onnx") == 0;
    d->compiled = is_model;
    xcvm_status status = is_model ? compile(d, s) : xcvm_program_load_file(s->path, NULL, &d->program, &d->error);
    if (status == XCVM_OK)
        status = xcvm_session_create(d->program, NULL, &d->session, &d->error);
    if (status != XCVM_OK)
        return status;
    d->rereads = xcvm_program_state_count(d->program) == 0;
    if (d->rereads && strcmp(s->states, "none") != 0)
        return fail(d, XCVM_UNSUPPORTED,
                    "the program has no states, so that a run would forget all earlier tokens. Compile the "
                    "model with --state-pairs auto, or call decode with --states none if the model has no cache");
    d->numbers = malloc((xcvm_program_input_count(d->program) + 1) * MOST_IDS * sizeof *d->numbers);
    if (d->numbers == NULL)
        return fail(d, XCVM_OUT_OF_MEMORY, "the memory does not suffice for inputs");
    for (size_t i = 0; i < xcvm_program_output_count(d->program); i++)
        if (strcmp(xcvm_program_output_at(d->program, i)->name, "logits") == 0)
            d->logits = i;
    return XCVM_OK;
}

/* ---- Command line ---- */

static bool parse_ids(settings *s, const char *text)
{
    for (s->id_count = 0; *text != '\0' && s->id_count < MOST_IDS; s->id_count++) {
        char *end;
        s->ids[s->id_count] = strtoll(text, &end, 10);
        if (end == text || (*end != '\0' && *end != ',' && *end != ' '))
            return false;
        text = end + (*end != '\0');
    }
    return s->id_count > 0 && *text == '\0';
}

static bool parse_count(const char *text, int64_t least, int64_t *number)
{
    char *end;
    *number = strtoll(text, &end, 10);
    return end != text && *end == '\0' && *number >= least;
}

static bool parse_real(const char *text, double *number)
{
    char *end;
    *number = strtod(text, &end);
    return end != text && *end == '\0' && *number >= 0.0;
}

static bool parse_dim(settings *s, char *text)
{
    char *equals = strrchr(text, '=');
    int64_t size;
    if (equals == NULL || s->dim_count == MOST_DIMS || !parse_count(equals + 1, 0, &size))
        return false;
    *equals = '\0';
    s->dims[s->dim_count++] = (xcc_dim){text, size};
    return true;
}

static const char usage[] = "usage: decode MODEL [--ids 1,2,3] [--count N] [--end ID] [--temperature T] [--top-k K] "
                            "[--seed S] [--states auto|PATTERN|none] [--cache-rows N] [--dim NAME=SIZE]...\n";

/* Returns NULL, or the kind of value that the option needs. */
static const char *parse_option(settings *s, const char *name, char *value)
{
    int64_t number = 0;
    if (strcmp(name, "--ids") == 0)
        return parse_ids(s, value) ? NULL : "ids with commas between them, for example 3,17,5";
    if (strcmp(name, "--dim") == 0)
        return parse_dim(s, value) ? NULL : "NAME=SIZE";
    if (strcmp(name, "--temperature") == 0)
        return parse_real(value, &s->temperature) ? NULL : "a number of at least 0";
    if (strcmp(name, "--states") == 0) {
        s->states = value;
        return NULL;
    }
    if (strcmp(name, "--count") == 0 || strcmp(name, "--cache-rows") == 0) {
        const bool good = parse_count(value, 1, &number);
        if (strcmp(name, "--count") == 0)
            s->count = (size_t)number;
        else
            s->cache_rows = number;
        return good ? NULL : "a whole number of at least 1";
    }
    if (strcmp(name, "--end") == 0 || strcmp(name, "--top-k") == 0 || strcmp(name, "--seed") == 0) {
        const bool good = parse_count(value, 0, &number);
        if (strcmp(name, "--end") == 0)
            s->end = number;
        else if (strcmp(name, "--top-k") == 0)
            s->top_k = (size_t)number;
        else
            s->seed = (uint64_t)number;
        return good ? NULL : "a whole number of at least 0";
    }
    return "to be one of the options below";
}

static bool parse_command_line(settings *s, int argc, char **argv)
{
    for (int i = 2; i < argc; i += 2) {
        const char *needed = i + 1 < argc ? parse_option(s, argv[i], argv[i + 1]) : "a value";
        if (needed == NULL)
            continue;
        fprintf(stderr, "decode: %s needs %s%s%s%s\n", argv[i], needed, i + 1 < argc ? " (given: \"" : "",
                i + 1 < argc ? argv[i + 1] : "", i + 1 < argc ? "\")" : "");
        return false;
    }
    if (argc >= 2)
        s->path = argv[1];
    return argc >= 2;
}

/* The message names the file, and the remedy if a cache is full. */
static void report_failure(const decoder *d, const settings *s, xcvm_status status)
{
    const char *message = d->error.message;
    const bool names_file = strstr(message, s->path) != NULL;
    fprintf(stderr, "decode: %s%s%s\n", names_file ? "" : s->path, names_file ? "" : ": ", message);
    if (strstr(message, "is declared as") != NULL)
        fprintf(stderr,
                "decode: if the model has the sizes of its example, export it with open sizes (dynamic_axes)\n");
    if (d->program == NULL && strstr(message, "exported without a cache") != NULL)
        fprintf(stderr, "decode: --states none reads all tokens again in each run, for a model without a cache\n");
    if (status != XCVM_OUT_OF_RANGE || d->read == 0)
        return;
    if (strstr(message, "the cache holds") != NULL)
        fprintf(stderr,
                "decode: the cache is full after %lld tokens. %s with a larger --cache-rows or, if the model itself "
                "declares how many rows its caches have, a larger --dim\n",
                (long long)d->read, d->compiled ? "Call decode" : "Compile the model");
    else
        fprintf(stderr, "decode: the model may have positions for %lld tokens only\n", (long long)d->read);
}

int main(int argc, char **argv)
{
    static settings s = {.states = "auto", .ids = {1}, .id_count = 1, .count = 16, .end = -1};
    const bool help = argc == 2 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0);
    if (help || !parse_command_line(&s, argc, argv)) {
        fputs(usage, help ? stdout : stderr);
        return help ? 0 : 2;
    }
    decoder d = {.program = NULL};
    xcvm_status status = open_decoder(&d, &s);
    if (status == XCVM_OK)
        status = generate(&d, &s);
    if (status != XCVM_OK)
        report_failure(&d, &s, status);
    xcvm_session_destroy(d.session);
    xcvm_program_destroy(d.program);
    free(d.numbers);
    return status == XCVM_OK ? 0 : 1;
}
