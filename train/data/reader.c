/* Reading examples: shards that are open, and rows of them brought to the types of the inputs. */
#include "base/clock.h"
#include "base/element.h"
#include "train/data/convert_rows.h"
#include "train/data/dataset.h"

/* A shard that is open: its files, and the rows of each column. */
typedef struct open_shard {
    size_t shard; /* SIZE_MAX: none */
    xct_arrays **files;
    xct_rows *rows;
    const char *labels; /* the file that has them */
    uint64_t used;      /* when */
} open_shard;

enum { OPEN_SHARDS = 2 }; /* where one ends in the middle of a batch, the next begins */

struct xct_reader {
    xcvm_arena arena;
    const xct_dataset *set;
    open_shard open[OPEN_SHARDS];
    uint64_t clock;
    xct_decoder **decoders; /* of columns of images */
    uint64_t deadline_ns;   /* monotonic clock; 0: none */
};

static void close_shard(const xct_dataset *set, open_shard *open)
{
    if (open->shard == SIZE_MAX)
        return;
    for (size_t i = 0; i < set->bound_count; i++)
        xct_rows_release(&open->rows[i]);
    xct_shard_close(&set->shards[open->shard], open->files);
    open->shard = SIZE_MAX;
}

static xcvm_status read_rows(const xct_dataset *set, const xct_shard *shard, uint64_t deadline_ns, open_shard *open,
                             xcvm_error *error)
{
    XCVM_TRY(xct_shard_open(shard, set->arena.allocator, open->files, error));
    for (size_t i = 0; i < set->bound_count; i++) {
        const xct_bound *bound = &set->bounds[i];
        size_t file, index;
        XCVM_TRY(xct_shard_find(open->files, shard, bound->array, &file, &index, error));
        if (set->labels.input == bound->input)
            open->labels = shard->paths[file];
        const xcvm_status status = xct_arrays_rows(open->files[file], index, deadline_ns, &open->rows[i], error);
        if (status != XCVM_OK) {
            xcvm_error_prefix(error, "%s: array \"%s\"", shard->paths[file], bound->array);
            return status;
        }
        /* The file may have changed since the data set was opened. */
        XCVM_CHECK(error,
                   (uint64_t)open->rows[i].dims[0] >= shard->rows &&
                       open->rows[i].row_bytes == bound->row_count * xcvm_dtype_size(open->rows[i].dtype) &&
                       xct_converts(open->rows[i].dtype, bound->dtype),
                   IO, "%s: the file has changed while it was used", shard->paths[file]);
    }
    return XCVM_OK;
}

static xcvm_status find_shard(xct_reader *reader, size_t shard, open_shard **found, xcvm_error *error)
{
    open_shard *oldest = &reader->open[0];
    for (size_t i = 0; i < OPEN_SHARDS; i++) {
        if (reader->open[i].shard == shard) {
            *found = &reader->open[i];
            return XCVM_OK;
        }
        if (reader->open[i].shard == SIZE_MAX || (oldest->shard != SIZE_MAX && reader->open[i].used < oldest->used))
            oldest = &reader->open[i];
    }
    close_shard(reader->set, oldest);
    oldest->shard = shard;
    const xcvm_status status = read_rows(reader->set, &reader->set->shards[shard], reader->deadline_ns, oldest, error);
    if (status != XCVM_OK)
        close_shard(reader->set, oldest);
    *found = oldest;
    return status;
}

xcvm_status xct_reader_create(const xct_dataset *set, xct_reader **made, xcvm_error *error)
{
    xcvm_arena arena = {.allocator = set->arena.allocator};
    size_t most = 1;
    for (size_t i = 0; i < set->shard_count; i++)
        most = set->shards[i].path_count > most ? set->shards[i].path_count : most;
    xct_reader *reader = xcvm_arena_allocate(&arena, sizeof *reader);
    bool good = reader != NULL;
    for (size_t i = 0; i < OPEN_SHARDS && good; i++) {
        open_shard *open = &reader->open[i];
        open->shard = SIZE_MAX;
        open->files = xcvm_arena_allocate(&arena, most * sizeof *open->files);
        open->rows = xcvm_arena_allocate(&arena, set->bound_count * sizeof *open->rows);
        good = open->files != NULL && open->rows != NULL;
    }
    if (good)
        reader->decoders = xcvm_arena_allocate(&arena, set->bound_count * sizeof(xct_decoder *));
    if (!good || reader->decoders == NULL) {
        xcvm_arena_release(&arena);
        return xcvm_error_set(error, XCVM_OUT_OF_MEMORY, "no memory for reading data");
    }
    reader->arena = arena;
    reader->set = set;
    xcvm_status status = XCVM_OK;
    for (size_t i = 0; i < set->bound_count && set->images != NULL && status == XCVM_OK; i++)
        if (set->bounds[i].rank == 4)
            status = xct_decoder_create(set->bounds[i].dtype, 4, set->bounds[i].dims, set->bounds[i].scale,
                                        set->arena.allocator, set->memory_limit, &reader->decoders[i], error);
    if (status == XCVM_OK)
        *made = reader;
    else
        xct_reader_destroy(reader);
    xct_memory_name(set->memory, status, error);
    return status;
}

void xct_reader_destroy(xct_reader *reader)
{
    if (reader == NULL)
        return;
    for (size_t i = 0; i < OPEN_SHARDS; i++)
        close_shard(reader->set, &reader->open[i]);
    for (size_t i = 0; i < reader->set->bound_count; i++)
        xct_decoder_destroy(reader->decoders[i]);
    xcvm_arena arena = reader->arena;
    xcvm_arena_release(&arena);
}

void xct_reader_set_deadline(xct_reader *reader, uint64_t deadline_ns) { reader->deadline_ns = deadline_ns; }

static xcvm_status check_deadline(const xct_reader *reader, xcvm_error *error)
{
    XCVM_CHECK(error, reader->deadline_ns == 0 || xcvm_clock_ns() < reader->deadline_ns, OUT_OF_TIME,
               "reading data exceeds the time limit");
    return XCVM_OK;
}

static xcvm_status read_image(xct_reader *reader, uint64_t row, unsigned char *const *to, size_t place,
                              xcvm_error *error)
{
    const xct_dataset *set = reader->set;
    for (size_t i = 0; i < set->bound_count; i++) {
        const xct_bound *bound = &set->bounds[i];
        unsigned char *at = to[i] + place * bound->row_bytes;
        if (reader->decoders[i] != NULL)
            XCVM_TRY(xct_decoder_read(reader->decoders[i], set->images->paths[row], reader->deadline_ns, at,
                                      bound->row_bytes, error));
        else
            xct_convert(XCVM_I64 == bound->dtype ? XCVM_I64 : XCVM_I32, &set->images->labels[row], bound->dtype, at, 1);
    }
    return XCVM_OK;
}

/* So that the bytes of arrays have the bits of images, which are divided by 255. */
static double product(double x, double scale) { return scale == 1.0 / 255.0 ? x / 255.0 : x * scale; }

static void multiply(xcvm_dtype dtype, unsigned char *data, double scale, size_t count)
{
    const xcvm_float_format *format = xcvm_float_format_of(dtype);
    const int bits = xcvm_dtype_bits(dtype);
    bool exceeds;
    for (size_t i = 0; i < count && dtype == XCVM_F32; i++) {
        float x;
        memcpy(&x, data + i * sizeof x, sizeof x);
        x = (float)product((double)x, scale);
        memcpy(data + i * sizeof x, &x, sizeof x);
    }
    for (size_t i = 0; i < count && dtype == XCVM_F64; i++) {
        double x;
        memcpy(&x, data + i * sizeof x, sizeof x);
        x = product(x, scale);
        memcpy(data + i * sizeof x, &x, sizeof x);
    }
    for (size_t i = 0; i < count && dtype != XCVM_F32 && dtype != XCVM_F64 && format != NULL; i++) {
        const double x = xcvm_float_decode(format, xcvm_element_get(bits, data, i));
        xcvm_element_set(bits, data, i, xcvm_float_encode(format, product(x, scale), &exceeds));
    }
}

/* A row in portions, between which the deadline is looked at. */
static xcvm_status convert_row(const xct_reader *reader, const xct_bound *bound, xcvm_dtype from_type,
                               const unsigned char *from, unsigned char *to, const char *path, uint64_t row,
                               xcvm_error *error)
{
    enum { PORTION = 1 << 20 };
    const double scale = xct_bound_scale(bound);
    for (size_t at = 0, now; at < bound->row_count; at += now) {
        now = xcvm_min(bound->row_count - at, (size_t)PORTION);
        unsigned char *here = to + at * xcvm_dtype_size(bound->dtype);
        if (at > 0)
            XCVM_TRY(check_deadline(reader, error));
        xct_convert(from_type, from + at * xcvm_dtype_size(from_type), bound->dtype, here, now);
        if (scale != 1)
            multiply(bound->dtype, here, scale, now);
        XCVM_CHECK(error, !xct_has_nan(bound->dtype, here, now), INVALID_ARGUMENT,
                   "%s: array \"%s\" has NaN (not a number) in example %llu, counted from 0", path, bound->array,
                   (unsigned long long)row);
    }
    return XCVM_OK;
}

static xcvm_status read_example(xct_reader *reader, size_t shard, uint64_t row, unsigned char *const *to, size_t place,
                                xcvm_error *error)
{
    const xct_dataset *set = reader->set;
    open_shard *open;
    XCVM_TRY(find_shard(reader, shard, &open, error));
    open->used = ++reader->clock;
    for (size_t i = 0; i < set->bound_count; i++) {
        const xct_bound *bound = &set->bounds[i];
        const xct_rows *rows = &open->rows[i];
        unsigned char *at = to[i] + place * bound->row_bytes;
        const unsigned char *from = rows->data + row * rows->row_bytes;
        XCVM_TRY(
            xct_labels_check(set, bound, open->labels, rows->dtype, from, row, 1, reader->deadline_ns, NULL, error));
        XCVM_TRY(convert_row(reader, bound, rows->dtype, from, at, set->shards[shard].paths[0], row, error));
    }
    return XCVM_OK;
}

xcvm_status xct_reader_read(xct_reader *reader, size_t shard, uint64_t row, unsigned char *const *to, size_t place,
                            xcvm_error *error)
{
    XCVM_TRY(check_deadline(reader, error));
    const xcvm_status status = reader->set->images != NULL ? read_image(reader, row, to, place, error)
                                                           : read_example(reader, shard, row, to, place, error);
    xct_memory_name(reader->set->memory, status, error);
    return status;
}
