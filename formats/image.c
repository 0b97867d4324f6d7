/* Decoding images: the limits, and the choice of the decoder by the first bytes. */
#include "formats/image.h"

#include <string.h>

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
        status = xcvm_heap_account(s->budget->heap, (ptrdiff_t)bytes, &error);
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
    xcvm_error error;
    const xcvm_status status = budget->poll(budget->user, &error);
    if (status != XCVM_OK)
        refuse(budget, &error);
    return status;
}

xcvm_status xcvm_image_poll(const xcvm_image_source *s) { return poll(s->budget); }

/* Header of memory that a library allocates. */
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
    if (xcvm_heap_allocate(budget->heap, bytes <= PTRDIFF_MAX ? LOAN + bytes : bytes, &storage, &error) != XCVM_OK) {
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

/* ---- Formats ---- */

static bool begins(const xcvm_image_source *s, size_t at, const char *with, size_t length)
{
    return s->count >= at + length && memcmp(s->bytes + at, with, length) == 0;
}

xcvm_status xcvm_image_decode_source(const xcvm_image_source *s)
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
    return xcvm_error_set(
        s->error, XCVM_INVALID_ARGUMENT,
        "x is not an image of a known format (expected JPEG, JPEG 2000, PNG, BMP, TIFF, WebP, PGM or PPM)");
}

const xcvm_error *xcvm_image_finish(xcvm_image_budget *budget, const xcvm_error *error)
{
    (void)xcvm_heap_account(budget->heap, -(ptrdiff_t)budget->claimed, NULL);
    budget->claimed = 0;
    return budget->refused.status != XCVM_OK ? &budget->refused : error;
}
