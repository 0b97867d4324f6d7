/* Checkpoints: states and numbers in one safetensors file. */
#include "train/checkpoint.h"

#include "base/array.h"
#include "train/whole_file.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>
#include <zlib.h>

static const char version_key[] = "xcvm_checkpoint", version[] = "4", sum_key[] = "crc32";
/* Per class the counts of the current epoch, if it has begun. */
static const char classes_name[] = "epoch@classes";

/* ---- Numbers ---- */

/* Every number of a position, X(member). Floating-point numbers are stored as bits, so that they are restored exactly.
 */
#define POSITION(X)                                                                                                    \
    X(step)                                                                                                            \
    X(epoch)                                                                                                           \
    X(place)                                                                                                           \
    X(best)                                                                                                            \
    X(factor)                                                                                                          \
    X(waited)                                                                                                          \
    X(patience_best)                                                                                                   \
    X(patience_epochs)                                                                                                 \
    X(best_step)                                                                                                       \
    X(best_loss)
/* Every number of the circumstances, X(member, text for errors). */
#define CIRCUMSTANCES(X)                                                                                               \
    X(batch, "batches of %" PRIu64 " examples")                                                                        \
    X(examples, "a data set of %" PRIu64 " examples")                                                                  \
    X(shuffle, "shuffling %" PRIu64 " (0: none)")                                                                      \
    X(accumulate, "gradients of %" PRIu64 " batches in a step")                                                        \
    X(held_out, "%" PRIu64 " examples held out")                                                                       \
    X(overfit, "epochs of kind %" PRIu64 " (1: all batches, 2: the first one)")

#define COUNT_NUMBER(member) +1
#define COUNT_CIRCUMSTANCE(member, text) +1
_Static_assert(sizeof(xct_position) == (0 POSITION(COUNT_NUMBER)) * sizeof(uint64_t), "a number is in no checkpoint");
_Static_assert(sizeof(xct_circumstances) == (0 CIRCUMSTANCES(COUNT_CIRCUMSTANCE)) * sizeof(uint64_t),
               "a number is in no checkpoint");
enum { NOTES = 3 + XCT_SUMS + 0 POSITION(COUNT_NUMBER) CIRCUMSTANCES(COUNT_CIRCUMSTANCE), NUMBER_TEXT = 24 };

typedef struct notes {
    xcvm_safetensors_note items[NOTES];
    char texts[NOTES][NUMBER_TEXT];
    size_t count;
} notes;

static void add_note(notes *n, const char *key, uint64_t number)
{
    char *text = n->texts[n->count];
    (void)snprintf(text, NUMBER_TEXT, "%" PRIu64, number);
    n->items[n->count++] = (xcvm_safetensors_note){key, text};
}

static bool read_note(const xcvm_safetensors *file, const char *key, uint64_t *number)
{
    const char *text = xcvm_safetensors_note_find(file, key);
    char *end;
    if (text == NULL || *text < '0' || *text > '9')
        return false;
    errno = 0;
    *number = strtoull(text, &end, 10);
    return *end == '\0' && errno == 0;
}

/* Both kinds of numbers have eight bytes. */
static void put_bits(notes *n, const char *key, const void *number)
{
    uint64_t bits;
    memcpy(&bits, number, sizeof bits);
    add_note(n, key, bits);
}

static bool take_bits(const xcvm_safetensors *file, const char *key, void *number)
{
    uint64_t bits;
    const bool found = read_note(file, key, &bits);
    if (found)
        memcpy(number, &bits, sizeof bits);
    return found;
}

/* Where a training stands: its position, and the sums of its epoch. */
typedef struct standing {
    xct_position position;
    double sums[XCT_SUMS];
} standing;

#define PUT_MEMBER(member)                                                                                             \
    _Static_assert(sizeof p->position.member == sizeof(uint64_t), "eight bytes");                                      \
    put_bits(n, #member, &p->position.member);
#define PUT_SUM(name) put_bits(n, "epoch_" #name, &p->sums[XCT_SUM_##name]);
#define TAKE_MEMBER(member) &&take_bits(file, #member, &p->position.member)
#define TAKE_SUM(name) &&take_bits(file, "epoch_" #name, &p->sums[XCT_SUM_##name])

static void put_standing(notes *n, const standing *p) { POSITION(PUT_MEMBER) XCT_SUM_LIST(PUT_SUM) }
static bool take_standing(const xcvm_safetensors *file, standing *p)
{
    return true POSITION(TAKE_MEMBER) XCT_SUM_LIST(TAKE_SUM);
}

/* The initial best loss is infinite. */
static bool is_loss(double loss) { return isfinite(loss) || loss == INFINITY; }

static bool is_count(double count) { return isfinite(count) && count >= 0; }

static bool is_whole(double count) { return count >= 0 && count < 0x1p53 && count == floor(count); }

/* Returns whether the sums of an epoch are consistent. Those of differences may be infinite or NaN. */
static bool are_sums(const double *sums)
{
    static const unsigned char counts[] = {XCT_SUM_predicted, XCT_SUM_right,    XCT_SUM_right5,
                                           XCT_SUM_numbers,   XCT_SUM_examples, XCT_SUM_batches};
    for (size_t i = 0; i < sizeof counts; i++)
        if (!is_whole(sums[counts[i]]))
            return false;
    return isfinite(sums[XCT_SUM_loss]) && is_count(sums[XCT_SUM_weight]) &&
           sums[XCT_SUM_right] <= sums[XCT_SUM_predicted] && sums[XCT_SUM_right5] <= sums[XCT_SUM_predicted];
}

/* Returns whether counts of classes are those of the predictions. */
static bool are_classes(const xcvm_safetensor *classes, double predicted)
{
    if (classes->dtype != XCVM_U64 || classes->rank != 2 || classes->dims[1] != 3)
        return false;
    for (size_t i = 0; i < classes->bytes / sizeof(uint64_t); i++) {
        uint64_t count;
        memcpy(&count, (const char *)classes->data + i * sizeof count, sizeof count);
        if ((double)count > predicted)
            return false;
    }
    return true;
}

/* Returns whether the numbers are consistent. */
static bool is_standing(const standing *at)
{
    const xct_position *p = &at->position;
    return is_count(p->factor) && is_count(p->waited) && are_sums(at->sums) && is_loss(p->best) &&
           is_loss(p->patience_best) && is_loss(p->best_loss) && p->patience_epochs <= p->epoch &&
           p->best_step <= p->step && (p->best_step == 0 || isfinite(p->best_loss));
}

/* Returns whether a fit with known circumstances wrote the file, whose steps took the batches of an epoch in order. */
static bool is_of_a_fit(const xcvm_safetensors *file)
{
    uint64_t batch, kind;
    return read_note(file, "batch", &batch) && batch > 0 && read_note(file, "overfit", &kind) && kind == 1;
}

/* Returns whether this number of steps reaches the position in its epoch. Several processes leave out the last examples
 * if there are too few, so an epoch may be one batch shorter. */
static bool is_on_the_way(const xct_position *p, const xct_circumstances *c)
{
    if (c->batch == 0 || c->overfit != 1 || c->held_out == 0 || c->held_out > c->examples)
        return true; /* unknown */
    const uint64_t total = c->examples - (c->held_out - 1), accumulate = c->accumulate > 0 ? c->accumulate : 1;
    const double least = (double)xcvm_ceil_div(total / c->batch, accumulate);
    const double most = (double)xcvm_ceil_div(xcvm_ceil_div(total, c->batch), accumulate);
    const double step = (double)c->batch * (double)accumulate, part = (double)p->place / step;
    const double done = (double)p->step, epochs = (double)p->epoch;
    return p->place <= total && done >= epochs * least + floor(part) && done <= epochs * most + ceil(part);
}

/* ---- Writing ---- */

static uLong add_text(uLong sum, const char *text)
{
    return crc32_z(sum, (const unsigned char *)text, strlen(text) + 1);
}

/* The checksum of the file's numbers without the sum itself, and of names and elements of its tensors. */
static uint32_t sum_of(const xcvm_safetensor *tensors, size_t count, const xcvm_safetensors_note *texts,
                       size_t text_count)
{
    uLong sum = crc32_z(0, NULL, 0);
    for (size_t i = 0; i < text_count; i++)
        if (strcmp(texts[i].key, sum_key) != 0)
            sum = add_text(add_text(sum, texts[i].key), texts[i].text);
    for (size_t i = 0; i < count; i++) {
        sum = add_text(sum, tensors[i].name);
        if (tensors[i].bytes > 0)
            sum = crc32_z(sum, tensors[i].data, tensors[i].bytes);
    }
    return (uint32_t)sum;
}

static void describe_state(const xct_trainer *t, size_t state, xcvm_safetensor *tensor)
{
    const xcvm_value *value = xcvm_session_get_state(t->root.session, state);
    *tensor = (xcvm_safetensor){.name = xcvm_program_state_at(t->root.program, state)->name,
                                .dtype = (xcvm_dtype)value->dtype,
                                .rank = value->rank,
                                .data = value->data,
                                .bytes = value->bytes};
    memcpy(tensor->dims, value->dims, sizeof tensor->dims);
}

/* Lists the tensors of a checkpoint, and leaves room for one more, in arena memory: the states, then with `best` the
 * weights of the best epoch. */
static xcvm_status list_tensors(const xct_trainer *t, bool best, xcvm_arena *arena, xcvm_safetensor **tensors,
                                size_t *count, xcvm_error *error)
{
    const size_t states = xcvm_program_state_count(t->root.program);
    xcvm_safetensor *items = xcvm_arena_allocate(arena, (2 * states + 2) * sizeof *items);
    XCVM_CHECK(error, items != NULL, OUT_OF_MEMORY, "no memory for the tensors of a checkpoint");
    *count = states;
    for (size_t i = 0; i < states; i++) {
        describe_state(t, i, &items[i]);
        if (!best || !xct_best_keeps(items[i].name))
            continue;
        xcvm_safetensor *kept = &items[(*count)++];
        *kept = items[i];
        kept->name = xct_best_name(arena, items[i].name);
        kept->data = t->best != NULL ? t->best[i]->data : NULL;
        XCVM_CHECK(error, kept->name != NULL, OUT_OF_MEMORY, "no memory for the tensors of a checkpoint");
    }
    *tensors = items;
    return XCVM_OK;
}

static void add_classes(const xct_trainer *t, xcvm_safetensor *tensors, size_t *count)
{
    const xct_measure *m = &t->epoch;
    if (m->batches > 0 && m->class_count > 0)
        tensors[(*count)++] = (xcvm_safetensor){.name = classes_name,
                                                .dtype = XCVM_U64,
                                                .rank = 2,
                                                .dims = {(int64_t)m->class_count, 3},
                                                .data = m->classes,
                                                .bytes = m->class_count * 3 * sizeof *m->classes};
}

static xcvm_status write_tensors(const xct_trainer *t, const xcvm_safetensor *tensors, size_t count, xcvm_sink sink,
                                 xcvm_error *error)
{
    notes n = {.items = {{version_key, version}}, .count = 1};
    add_note(&n, "seed", t->options.seed);
    standing at = {.position = t->position};
    xct_measure_get_sums(&t->epoch, at.sums);
    put_standing(&n, &at);
#define PUT(member, text) add_note(&n, #member, t->circumstances.member);
    CIRCUMSTANCES(PUT)
#undef PUT
    add_note(&n, sum_key, sum_of(tensors, count, n.items, n.count));
    return xcvm_safetensors_write(tensors, count, n.items, n.count, t->allocator, sink, error);
}

static xcvm_status write_states(const xct_trainer *t, xcvm_sink sink, xcvm_error *error)
{
    xcvm_arena arena = {.allocator = t->allocator};
    xcvm_safetensor *tensors;
    size_t count;
    xcvm_status status = list_tensors(t, t->best != NULL && t->position.best_step > 0, &arena, &tensors, &count, error);
    if (status == XCVM_OK) {
        add_classes(t, tensors, &count);
        status = write_tensors(t, tensors, count, sink, error);
    }
    xcvm_arena_release(&arena);
    return status;
}

/* Returns whether gradients are accumulated for the next step. */
static bool has_accumulated(const xct_trainer *t)
{
    for (size_t i = 0; i < xcvm_program_state_count(t->root.program); i++)
        if (strcmp(xcvm_program_state_at(t->root.program, i)->name, "optimizer@micro_batches") == 0)
            return *(const int64_t *)xcvm_session_get_state(t->root.session, i)->data > 0;
    return false;
}

xcvm_status xct_trainer_save(const xct_trainer *t, const char *path, xcvm_error *error)
{
    xct_whole_file file;
    xcvm_error own;
    error = error != NULL ? error : &own;
    XCVM_CHECK(error, t != NULL && path != NULL, INVALID_ARGUMENT, "trainer or path is NULL");
    XCVM_CHECK(error, t->options.ranks <= 1 || !has_accumulated(t), INVALID_ARGUMENT,
               "each of %d processes has accumulated gradients of its own, which a checkpoint cannot hold before the "
               "step that takes them",
               t->options.ranks);
    XCVM_TRY(xct_whole_file_open(&file, path, NULL, error));
    const xcvm_status status = write_states(t, (xcvm_sink){xct_whole_file_sink, &file}, error);
    return xct_whole_file_close(&file, status, error);
}

/* ---- Reading ---- */

static xcvm_status check_circumstances(const xct_trainer *t, const xcvm_safetensors *file, xcvm_error *error)
{
    uint64_t seed, was, is;
    char then[100], now[100];
    XCVM_CHECK(error, read_note(file, "seed", &seed), INVALID_ARGUMENT, "a broken checkpoint: it has no seed");
    XCVM_CHECK(error, seed == t->options.seed, INVALID_ARGUMENT,
               "the checkpoint is of a training with seed %" PRIu64 ", not %" PRIu64, seed, t->options.seed);
#define CHECK(member, text)                                                                                            \
    XCVM_CHECK(error, read_note(file, #member, &was), INVALID_ARGUMENT, "a broken checkpoint: it has no " #member);    \
    is = t->circumstances.member;                                                                                      \
    if (is != was && is != 0 && was != 0) {                                                                            \
        const uint64_t more = &t->circumstances.member == &t->circumstances.held_out; /* 0 stands for unknown */       \
        (void)snprintf(then, sizeof then, text, was - more);                                                           \
        (void)snprintf(now, sizeof now, text, is - more);                                                              \
        XCVM_FAIL(error, INVALID_ARGUMENT, "the checkpoint is of a training with %s, this one has %s", then, now);     \
    }
    CIRCUMSTANCES(CHECK)
#undef CHECK
    return XCVM_OK;
}

static xcvm_status check_tensors(const xcvm_safetensor *tensors, size_t count, const xcvm_safetensors *file,
                                 xcvm_error *error)
{
    for (size_t i = 0; i < count; i++) {
        const xcvm_safetensor own = tensors[i], *saved = xcvm_safetensors_find(file, own.name);
        XCVM_CHECK(error, saved != NULL, INVALID_ARGUMENT,
                   "the checkpoint is of another model or optimizer: it has no \"%.100s\"", own.name);
        XCVM_CHECK(error,
                   saved->dtype == own.dtype && saved->rank == own.rank &&
                       memcmp(saved->dims, own.dims, (size_t)own.rank * sizeof *own.dims) == 0,
                   INVALID_ARGUMENT, "the checkpoint is of another model: its \"%.100s\" has another type or shape",
                   own.name);
    }
    const xcvm_safetensor *classes = xcvm_safetensors_find(file, classes_name);
    count += classes != NULL;
    XCVM_CHECK(error, file->count == count, INVALID_ARGUMENT,
               "the checkpoint is of another model or optimizer: it has %zu tensors, not %zu", file->count, count);
    return XCVM_OK;
}

/* Reads the standing from a complete file. `named` is the step in the file's name, NULL if the name has none. */
static xcvm_status read_standing(const xct_trainer *t, const xcvm_safetensors *file, const uint64_t *named,
                                 standing *at, xcvm_error *error)
{
    uint64_t sum;
    const xct_position *position = &at->position;
    const char *given = xcvm_safetensors_note_find(file, version_key);
    XCVM_CHECK(error, given != NULL, INVALID_ARGUMENT, "it is no checkpoint of a training");
    XCVM_CHECK(error, strcmp(given, version) == 0, UNSUPPORTED, "a checkpoint of version %.20s (%s can be read)", given,
               version);
    XCVM_CHECK(error,
               read_note(file, sum_key, &sum) &&
                   sum == sum_of(file->tensors, file->count, file->notes, file->note_count),
               INVALID_ARGUMENT, "a broken checkpoint: its check sum is wrong");
    XCVM_CHECK(error, take_standing(file, at), INVALID_ARGUMENT,
               "a broken checkpoint: it does not say how far the training was");
    XCVM_CHECK(error, named == NULL || *named == position->step, INVALID_ARGUMENT,
               "a broken checkpoint: its name is of step %" PRIu64 ", it is of step %" PRIu64, *named, position->step);
    XCVM_TRY(check_circumstances(t, file, error));
    XCVM_CHECK(error,
               is_standing(at) && (named == NULL || !is_of_a_fit(file) || is_on_the_way(position, &t->circumstances)),
               INVALID_ARGUMENT,
               "a broken checkpoint: no training stands behind %" PRIu64 " steps, %" PRIu64 " epochs and %" PRIu64
               " examples of the next, with its best behind %" PRIu64,
               position->step, position->epoch, position->place, position->best_step);
    return XCVM_OK;
}

static xcvm_status restore(xct_trainer *t, xcvm_safetensors *file, const xct_mapping *bytes, const uint64_t *named,
                           xcvm_error *error)
{
    standing at;
    XCVM_TRY(read_standing(t, file, named, &at, error));
    const bool best = at.position.best_step > 0;
    if (best)
        XCVM_TRY(xct_best_provide(t, error));
    xcvm_safetensor *own;
    size_t count;
    XCVM_TRY(list_tensors(t, best, &file->arena, &own, &count, error));
    XCVM_TRY(check_tensors(own, count, file, error));
    const xcvm_safetensor *classes = xcvm_safetensors_find(file, classes_name);
    XCVM_CHECK(error, classes == NULL || are_classes(classes, at.sums[XCT_SUM_predicted]), INVALID_ARGUMENT,
               "a broken checkpoint: \"%s\" has another type or shape, or counts more than was predicted",
               classes_name);
    if (classes != NULL)
        XCVM_TRY(xct_measure_need_classes(&t->epoch, (size_t)classes->dims[0], error));
    XCVM_TRY(xcvm_session_load_states(t->root.session, bytes->bytes, bytes->count, error));
    for (size_t i = xcvm_program_state_count(t->root.program); i < count; i++)
        if (own[i].bytes > 0)
            memcpy((void *)(uintptr_t)own[i].data, xcvm_safetensors_find(file, own[i].name)->data, own[i].bytes);
    if (!best)
        xct_best_release(t);
    t->position = at.position;
    xct_measure_clear(&t->epoch);
    xct_measure_set_sums(&t->epoch, at.sums);
    if (classes != NULL && classes->bytes > 0)
        memcpy(t->epoch.classes, classes->data, classes->bytes);
    t->restored = true;
    return XCVM_OK;
}

static xcvm_status restore_file(xct_trainer *t, const char *path, const uint64_t *named, xcvm_error *error)
{
    xct_mapping file;
    XCVM_TRY(xct_mapping_open(&file, path, error));
    xcvm_safetensors tensors = {.arena = {.allocator = t->allocator}};
    xcvm_status status = xcvm_safetensors_read(&tensors, file.bytes, file.count, error);
    if (status == XCVM_OK)
        status = restore(t, &tensors, &file, named, error);
    if (status != XCVM_OK)
        xcvm_error_prefix(error, "%s", path);
    xcvm_safetensors_release(&tensors);
    xct_mapping_close(&file);
    return status;
}

xcvm_status xct_trainer_load(xct_trainer *t, const char *path, xcvm_error *error)
{
    xcvm_error own;
    error = error != NULL ? error : &own;
    XCVM_CHECK(error, t != NULL && path != NULL, INVALID_ARGUMENT, "trainer or path is NULL");
    return restore_file(t, path, NULL, error);
}

/* ---- The folder ---- */

static const char pattern[] = "step-%012" PRIu64 ".safetensors";

/* Reads the step from a file name; false if it is not the name of a checkpoint. */
static bool step_of(const char *name, uint64_t *step)
{
    char same[64];
    if (sscanf(name, "step-%" SCNu64, step) != 1)
        return false;
    (void)snprintf(same, sizeof same, pattern, *step);
    return strcmp(name, same) == 0;
}

/* A file whose writing process ended early. */
static bool is_unfinished(const char *name)
{
    const size_t length = strlen(name);
    return strncmp(name, "step-", 5) == 0 && length > 4 && strcmp(name + length - 4, ".new") == 0;
}

static xcvm_status name_of(const char *folder, const char *name, char path[XCT_PATH], xcvm_error *error)
{
    const int length = snprintf(path, XCT_PATH, "%s/%s", folder, name);
    XCVM_CHECK(error, length > 0 && length < XCT_PATH, IO, "%.100s: the name is too long", folder);
    return XCVM_OK;
}

xcvm_status xct_checkpoints_begin(const char *folder, xcvm_error *error)
{
    XCVM_CHECK(error, mkdir(folder, 0777) == 0 || errno == EEXIST, IO, "%s: %s", folder, strerror(errno));
    DIR *dir = opendir(folder);
    XCVM_CHECK(error, dir != NULL, IO, "%s: %s", folder, strerror(errno));
    xcvm_status status = XCVM_OK;
    for (const struct dirent *entry; status == XCVM_OK && (entry = readdir(dir)) != NULL;) {
        char path[XCT_PATH];
        if (is_unfinished(entry->d_name) && (status = name_of(folder, entry->d_name, path, error)) == XCVM_OK)
            (void)unlink(path);
    }
    closedir(dir);
    return status;
}

typedef struct steps {
    const xcvm_allocator *allocator;
    uint64_t *items; /* sorted */
    size_t count, capacity;
} steps;

static void release_steps(steps *s) { xcvm_deallocate(s->allocator, s->items, s->capacity * sizeof *s->items); }

static int compare_steps(const void *a, const void *b)
{
    const uint64_t first = *(const uint64_t *)a, second = *(const uint64_t *)b;
    return (first > second) - (first < second);
}

/* Lists the steps of the folder's checkpoints. The caller releases the list after any outcome. */
static xcvm_status survey(const char *folder, steps *s, xcvm_error *error)
{
    DIR *dir = opendir(folder);
    if (dir == NULL && errno == ENOENT)
        return XCVM_OK;
    XCVM_CHECK(error, dir != NULL, IO, "%s: %s", folder, strerror(errno));
    bool room = true;
    for (const struct dirent *entry; room && (entry = readdir(dir)) != NULL;) {
        uint64_t step, *items;
        if (!step_of(entry->d_name, &step))
            continue;
        items = xcvm_array_grow(s->allocator, s->items, s->count, &s->capacity, sizeof *items);
        room = items != NULL;
        if (room) {
            s->items = items;
            items[s->count++] = step;
        }
    }
    closedir(dir);
    XCVM_CHECK(error, room, OUT_OF_MEMORY, "no memory for the names of checkpoints");
    if (s->count > 0)
        qsort(s->items, s->count, sizeof *s->items, compare_steps);
    return XCVM_OK;
}

static xcvm_status path_of(const char *folder, uint64_t step, char path[XCT_PATH], xcvm_error *error)
{
    char name[64];
    (void)snprintf(name, sizeof name, pattern, step);
    return name_of(folder, name, path, error);
}

static xcvm_status remove_checkpoint(const char *folder, uint64_t step, xcvm_error *error)
{
    char path[XCT_PATH];
    XCVM_TRY(path_of(folder, step, path, error));
    XCVM_CHECK(error, unlink(path) == 0, IO, "%s: %s", path, strerror(errno));
    return XCVM_OK;
}

/* Removes the oldest checkpoints until at most `keep` remain. */
static xcvm_status remove_oldest(const xct_trainer *t, const char *folder, size_t keep, xcvm_error *error)
{
    steps s = {.allocator = t->allocator};
    xcvm_status status = survey(folder, &s, error);
    for (size_t i = 0; i + keep < s.count && status == XCVM_OK; i++)
        status = remove_checkpoint(folder, s.items[i], error);
    release_steps(&s);
    return status;
}

/* Removes before and after writing, so that repeatedly killed processes leave at most one extra checkpoint. */
xcvm_status xct_checkpoints_write(const xct_trainer *t, const char *folder, size_t keep, char path[XCT_PATH],
                                  xcvm_error *error)
{
    XCVM_TRY(remove_oldest(t, folder, keep, error));
    XCVM_TRY(path_of(folder, t->position.step, path, error));
    XCVM_TRY(xct_trainer_save(t, path, error));
    return remove_oldest(t, folder, keep, error);
}

xcvm_status xct_checkpoints_room(const xct_trainer *t, const char *folder, uint64_t written, uint64_t keep,
                                 xcvm_error *error)
{
    /* The oldest checkpoint is removed after the newest is written. */
    const uint64_t count = written < keep ? written + 1 : keep + 1;
    struct statvfs disk;
    uint64_t bytes = 0;
    for (size_t i = 0; i < xcvm_program_state_count(t->root.program); i++) {
        const xcvm_value *state = xcvm_session_get_state(t->root.session, i);
        const char *name = xcvm_program_state_at(t->root.program, i)->name;
        bytes += state != NULL ? state->bytes * (t->best != NULL && xct_best_keeps(name) ? 2 : 1) : 0;
    }
    XCVM_CHECK(error, access(folder, W_OK) == 0, IO, "%s: no checkpoint can be written there: %s", folder,
               strerror(errno));
    if (statvfs(folder, &disk) != 0 || disk.f_blocks == 0)
        return XCVM_OK;
    const uint64_t room = (uint64_t)disk.f_bavail * disk.f_frsize;
    XCVM_CHECK(error, room / count >= bytes, IO,
               "%s: %" PRIu64
               " checkpoints of %.3f MB do not fit: %.3f MB are free there. Keep fewer, or choose another folder",
               folder, count, (double)bytes / 1e6, (double)room / 1e6);
    return XCVM_OK;
}

xcvm_status xct_checkpoints_latest(const char *folder, char path[XCT_PATH], xcvm_error *error)
{
    steps s = {.allocator = NULL};
    path[0] = '\0';
    xcvm_status status = survey(folder, &s, error);
    if (status == XCVM_OK && s.count > 0)
        status = path_of(folder, s.items[s.count - 1], path, error);
    release_steps(&s);
    return status;
}

/* Folders in the parent of `folder` that have checkpoints, the first few of them in the order of names. */
static void list_neighbors(const char *folder, char *list, size_t size)
{
    enum { NAMED = 3, LONGEST = 128 };
    char parent[XCT_PATH], path[XCT_PATH], names[NAMED][LONGEST];
    size_t count = 0, length = strlen(folder);
    while (length > 1 && folder[length - 1] == '/')
        length--;
    while (length > 0 && folder[length - 1] != '/')
        length--;
    list[0] = '\0';
    (void)snprintf(parent, sizeof parent, "%.*s", (int)length, folder);
    DIR *dir = opendir(length > 0 ? parent : ".");
    for (const struct dirent *entry; dir != NULL && (entry = readdir(dir)) != NULL;) {
        char checkpoint[XCT_PATH];
        const int made = snprintf(path, sizeof path, "%s%s", parent, entry->d_name);
        if (entry->d_name[0] == '.' || strlen(entry->d_name) >= LONGEST || made < 0 || made >= XCT_PATH ||
            xct_checkpoints_latest(path, checkpoint, NULL) != XCVM_OK || checkpoint[0] == '\0')
            continue;
        size_t at = count < NAMED ? count++ : NAMED;
        for (; at > 0 && strcmp(names[at - 1], entry->d_name) > 0; at--)
            if (at < NAMED)
                memcpy(names[at], names[at - 1], LONGEST);
        if (at < NAMED)
            memcpy(names[at], entry->d_name, strlen(entry->d_name) + 1);
    }
    if (dir != NULL)
        closedir(dir);
    for (size_t i = 0; i < count; i++) {
        const size_t used = strlen(list);
        (void)snprintf(list + used, size - used, "%s%s%s", i > 0 ? ", " : "", parent, names[i]);
    }
}

xcvm_status xct_checkpoints_refuse(const char *folder, xcvm_error *error)
{
    struct stat info;
    char neighbors[600];
    list_neighbors(folder, neighbors, sizeof neighbors);
    XCVM_FAIL(error, INVALID_ARGUMENT, "%s: %s, so there is nothing to resume. Begin without --resume%s%s", folder,
              stat(folder, &info) != 0 ? "there is no such folder" : "the folder has no checkpoint",
              neighbors[0] != '\0' ? ", or resume from a folder with checkpoints: " : "", neighbors);
}

xcvm_status xct_checkpoints_restore(xct_trainer *t, const char *path, xcvm_error *error)
{
    uint64_t step;
    const char *slash = strrchr(path, '/');
    const bool named = step_of(slash != NULL ? slash + 1 : path, &step);
    return restore_file(t, path, named ? &step : NULL, error);
}
