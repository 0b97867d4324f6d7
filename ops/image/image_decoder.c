/* ImageDecoder: the format is told by the first bytes, and decoded by the library for it. */
#include "ops/image/image.h"
#include "ops/kernel.h"

XCVM_SHAPE_RULE_OF(ImageDecoder)
{
    XCVM_CHECK(t->error, a->x->rank < 0 || a->x->rank == 1, SHAPE_MISMATCH, "x has rank %d, 1 is needed", a->x->rank);
    const int64_t channels = a->pixel_format == XCVM_PIXEL_FORMAT_Grayscale ? 1 : 3;
    xcvm_value_set_tensor(a->y, XCVM_U8, 3, (const int64_t[]){XCVM_ANY_DIM, XCVM_ANY_DIM, channels});
    return XCVM_OK;
}

typedef struct target {
    xcvm_kernel *k;
    xcvm_value *y;
    uint8_t *pixels; /* red, green and blue: y's memory, or scratch if it has one channel */
    size_t count;    /* pixels */
} target;

static uint8_t *make_room(void *user, size_t height, size_t width)
{
    target *to = user;
    const bool gray = to->y->dims[2] == 1;
    const int64_t dims[] = {(int64_t)height, (int64_t)width, gray ? 1 : 3};
    if (height == 0 || width == 0) {
        xcvm_error_set(to->k->error, XCVM_INVALID_ARGUMENT, "the image has no pixels");
        return NULL;
    }
    if (xcvm_kernel_allocate(to->k, to->y, XCVM_U8, 3, dims) != XCVM_OK)
        return NULL;
    to->count = height * width;
    return to->pixels = gray ? xcvm_kernel_scratch(to->k, 3 * to->count) : to->y->data;
}

/* ---- The budget ---- */

static void refuse(xcvm_image_budget *budget, const xcvm_error *error)
{
    if (budget->refused.status == XCVM_OK)
        budget->refused = *error;
}

xcvm_status xcvm_image_claim(const xcvm_image_source *s, size_t bytes)
{
    xcvm_error error;
    xcvm_status status = XCVM_OUT_OF_MEMORY;
    if (bytes <= PTRDIFF_MAX)
        status = xcvm_heap_account(s->budget->k->heap, (ptrdiff_t)bytes, &error);
    else
        xcvm_error_set(&error, status, "the image takes %zu bytes", bytes);
    if (status != XCVM_OK) {
        refuse(s->budget, &error);
        return xcvm_error_set(s->error, status, "%s", error.message);
    }
    s->budget->claimed += bytes;
    return XCVM_OK;
}

static xcvm_status poll(xcvm_image_budget *budget)
{
    const xcvm_status status = xcvm_kernel_poll(budget->k);
    if (status != XCVM_OK)
        refuse(budget, budget->k->error);
    return status;
}

xcvm_status xcvm_image_poll(const xcvm_image_source *s) { return poll(s->budget); }

/* What stands in front of memory that a library has. */
typedef struct loan {
    xcvm_storage *storage;
    size_t bytes;
} loan;

enum { LOAN = (sizeof(loan) + XCVM_ALIGNMENT - 1) / XCVM_ALIGNMENT * XCVM_ALIGNMENT };

static loan *loan_of(void *memory) { return (loan *)(void *)((char *)memory - LOAN); }

void *xcvm_image_allocate(xcvm_image_budget *budget, size_t bytes)
{
    xcvm_storage *storage;
    xcvm_error error;
    if (poll(budget) != XCVM_OK)
        return NULL;
    if (xcvm_heap_allocate(budget->k->heap, bytes <= PTRDIFF_MAX ? LOAN + bytes : bytes, &storage, &error) != XCVM_OK) {
        refuse(budget, &error);
        return NULL;
    }
    *(loan *)storage->data = (loan){storage, bytes};
    return (char *)storage->data + LOAN;
}

void *xcvm_image_reallocate(xcvm_image_budget *budget, void *memory, size_t bytes)
{
    void *moved = xcvm_image_allocate(budget, bytes);
    if (moved != NULL && memory != NULL) {
        const size_t before = loan_of(memory)->bytes;
        memcpy(moved, memory, before < bytes ? before : bytes);
        xcvm_image_release(memory);
    }
    return moved;
}

void xcvm_image_release(void *memory)
{
    if (memory != NULL)
        xcvm_storage_release(loan_of(memory)->storage);
}

/* ---- The instruction ---- */

static bool begins(const xcvm_image_source *s, size_t at, const char *with, size_t length)
{
    return s->count >= at + length && memcmp(s->bytes + at, with, length) == 0;
}

static xcvm_status decode(const xcvm_image_source *s)
{
    if (begins(s, 0, "\xff\xd8\xff", 3))
        return xcvm_image_decode_jpeg(s);
    if (begins(s, 0, "RIFF", 4) && begins(s, 8, "WEBP", 4))
        return xcvm_image_decode_webp(s);
    if (begins(s, 0, "\x89PNG\r\n\x1a\n", 8) || begins(s, 0, "BM", 2) || begins(s, 0, "P5", 2) || begins(s, 0, "P6", 2))
        return xcvm_image_decode_stb(s);
    if (begins(s, 0, "II*\0", 4) || begins(s, 0, "MM\0*", 4))
        return xcvm_image_decode_tiff(s);
    if (begins(s, 4, "jP  ", 4) || begins(s, 0, "\xff\x4f\xff\x51", 4))
        return xcvm_image_decode_jpeg2000(s);
    return xcvm_error_set(s->error, XCVM_INVALID_ARGUMENT,
                          "x is no image that is known; JPEG, JPEG 2000, PNG, BMP, TIFF, WebP, PGM or PPM is needed");
}

/* With an error of its own, which is always there, and which a refusal of the session goes before. */
xcvm_status xcvm_image_decode_any(xcvm_kernel *k, const void *bytes, size_t count, size_t channels,
                                  xcvm_image_room room, void *user)
{
    xcvm_error *const outer = k->error;
    xcvm_error error = {.status = XCVM_OK};
    xcvm_image_budget budget = {.k = k};
    const xcvm_image_source source = {bytes, count, channels, room, user, &budget, &error};
    k->error = &error;
    const xcvm_status status = decode(&source);
    k->error = outer;
    (void)xcvm_heap_account(k->heap, -(ptrdiff_t)budget.claimed, NULL);
    if (status == XCVM_OK)
        return XCVM_OK;
    const xcvm_error *cause = budget.refused.status != XCVM_OK ? &budget.refused : &error;
    return xcvm_error_set(outer, cause->status, "%s", cause->message);
}

XCVM_KERNEL(ImageDecoder)
{
    target to = {.k = k, .y = a->y};
    XCVM_TRY(xcvm_image_decode_any(k, a->x->data, xcvm_element_count(a->x), 3, make_room, &to));
    uint8_t *y = a->y->data;
    if (a->pixel_format == XCVM_PIXEL_FORMAT_BGR)
        for (size_t i = 0; i < to.count; i++) {
            const uint8_t red = y[3 * i];
            y[3 * i] = y[3 * i + 2];
            y[3 * i + 2] = red;
        }
    /* ITU-R 601-2, as Pillow computes it. */
    for (size_t i = 0; i < to.count && a->pixel_format == XCVM_PIXEL_FORMAT_Grayscale; i++)
        y[i] = (uint8_t)((19595U * to.pixels[3 * i] + 38470U * to.pixels[3 * i + 1] + 7471U * to.pixels[3 * i + 2] +
                          0x8000U) >>
                         16);
    return XCVM_OK;
}
